//! Habits of the whole command line: quiet, JSON, environment variables, repeated flags, the configuration file.

use std::path::Path;
use std::process::Command;

use melisma::speak::synthetic;
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};

/// A sandbox with something for every command to work on.
fn stocked() -> Sandbox {
    let sandbox = Sandbox::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["optimize/vocoder.onnx", "optimize/vocoder.x.npy", "optimize/control.onnx", "optimize/control.x.npy"] {
        let path = repository.join("golden").join(name);
        std::fs::copy(&path, sandbox.path(path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    for name in ["config.json", "model.safetensors"] {
        std::fs::create_dir_all(sandbox.path("tiny24")).unwrap();
        let from = repository.join("golden/snac/tiny24").join(name);
        std::fs::copy(from, sandbox.path("tiny24").join(name)).unwrap();
    }
    let codec = melisma::snac::Model::open(sandbox.path("tiny24")).unwrap();
    let shape = synthetic::Shape { end: 2.2, ..synthetic::Shape::default() };
    synthetic::write(&sandbox.path("voice"), &codec, shape, 5).unwrap();
    std::fs::write(sandbox.path("texts.jsonl"), r#"{"text": "Hello."}"#).unwrap();
    let tone: Vec<f32> = (0..12_000).map(|i| (f64::from(i) * 0.05).sin() as f32 * 0.3).collect();
    let clip = melisma::audio::Clip::mono(24_000, tone);
    let bytes = melisma::audio::wav::encode(&clip, melisma::audio::wav::SampleFormat::S16).unwrap();
    std::fs::create_dir(sandbox.path("sounds")).unwrap();
    std::fs::write(sandbox.path("sounds/tone.wav"), bytes).unwrap();
    let record = json!({ "machine": "test", "device": "cpu", "rows": [{ "name": "a/copy", "unit": "GB/s",
        "median": 1.0, "spread": 0.01, "n": 9, "ceiling": null, "peers": [] }] });
    std::fs::write(sandbox.path("record.json"), record.to_string()).unwrap();
    sandbox
}

/// Each command at its work, in an order in which one finds what the others made.
const AT_WORK: &[&str] = &[
    "encode sounds/tone.wav -o t.txt --model tiny24",
    "encode sounds/tone.wav -o - --model tiny24",
    "decode t.txt -o out.wav --model tiny24",
    "speak Hello. -o hello.wav --voice-model voice --model tiny24",
    "speak --list texts.jsonl -o spoken --voice-model voice --model tiny24",
    "synth preset:sleep -o s.wav --seconds 1 --rate 8000",
    "synth preset:sleep -o clips --clips 1 --seconds 1 --rate 8000",
    "mel sounds/tone.wav -o m.npy",
    "dataset build sounds -o d.h5 --segment 100ms",
    "dataset info d.h5",
    "dataset verify d.h5",
    "pack tiny24/model.safetensors -o p.safetensors",
    "pack -l p.safetensors",
    "pack -t p.safetensors",
    "unpack p.safetensors -o u.safetensors",
    "run control.onnx --input x=control.x.npy -o arrays",
    "cache list",
    "cache verify",
    "cache clear",
    "bench compare record.json record.json",
    "doctor",
];

/// Too long for a short test, or another test's.
const ELSEWHERE: &[&str] = &["demo", "optimize", "completions", "serve", "help"];

fn run(sandbox: &Sandbox, line: &str, more: &[&str]) -> Ran {
    let args: Vec<&str> = line.split(' ').chain(more.iter().copied()).collect();
    Ran::from(sandbox.command(&args).env("MELISMA_DEVICE", "cpu").env("MELISMA_ONNXRUNTIME", "none").output().unwrap())
}

#[test]
fn quiet_prints_errors_only_and_json_all_the_same() {
    let sandbox = stocked();
    let help = sandbox.run(&["--help"]).stdout;
    let groups = help.split_once("\nOptions:").unwrap().0;
    let commands: Vec<&str> = groups.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(commands.len() > 15, "{help}");
    for name in commands {
        let is_run = AT_WORK.iter().any(|line| line.split(' ').next() == Some(name));
        assert!(is_run || ELSEWHERE.contains(&name), "{name} is not among the commands that are run here");
    }
    for line in AT_WORK {
        let ran = run(&sandbox, line, &["-q"]);
        let is_pipe = line.contains(" -o - ");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{line}");
        assert!(is_pipe || ran.stdout.is_empty(), "{line}: {}", ran.stdout);
        if !is_pipe {
            let ran = run(&sandbox, line, &["-q", "-f", "--json"]);
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{line}");
            assert!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["device"].is_string(), "{line}");
        }
    }
    let refused = run(&sandbox, "decode none.txt -o x.wav", &["-q"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.starts_with("error: none.txt: "), "{}", refused.stderr);
    // What is asked for by name is data, not talk.
    for line in ["completions bash", "--print-config"] {
        assert!(!run(&sandbox, line, &["-q"]).stdout.is_empty(), "{line}");
    }
}

#[test]
fn errors_are_one_json_object_too() {
    let sandbox = stocked();
    std::fs::write(sandbox.path("bad.yaml"), "devise: cpu\n").unwrap();
    let slow = json!({ "machine": "test", "device": "cpu", "rows": [{ "name": "a/copy", "unit": "GB/s", "median": 0.5,
        "spread": 0.01, "n": 9, "ceiling": null, "peers": [] }] });
    std::fs::write(sandbox.path("slow.json"), slow.to_string()).unwrap();
    let cases = [
        ("", "invalid_argument", 2),
        ("decode", "usage", 2),
        ("doctro", "usage", 2),
        ("doctor --threads 0", "invalid_argument", 2),
        ("pack tiny24/model.safetensors -o record.json", "exists", 2),
        ("doctor --config bad.yaml", "invalid_argument", 2),
        ("doctor --device cuda:4242", "device", 4),
        ("decode none.txt -o x.wav", "io", 2),
        ("decode record.json -o x.wav --model tiny24", "corrupt", 2),
        ("decode record.json -o - --model tiny24", "invalid_argument", 2),
        ("pack -t tiny24/model.safetensors", "", 2),
        ("bench compare record.json slow.json", "check", 3),
    ];
    for (line, kind, code) in cases {
        let args: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        for from_flag in [true, false] {
            let mut command = sandbox.command(&args);
            if from_flag {
                command.arg("--json")
            } else {
                command.env("MELISMA_JSON", "1")
            };
            let ran = Ran::from(command.output().unwrap());
            let object = ran.json();
            let error = &object["error"];
            assert_eq!((ran.code, &error["exit_code"]), (code, &json!(code)), "{line}: {}", ran.stderr);
            assert!(kind.is_empty() || error["kind"] == kind, "{line}: {object}");
            let said = format!("error: {}\n", error["message"].as_str().unwrap());
            assert!(ran.stderr.starts_with(&said), "{line}: {object} {}", ran.stderr);
            let hint = error["hint"].as_str().map_or_else(String::new, |hint| format!("hint: {hint}\n"));
            assert!(ran.stderr.ends_with(&hint), "{line}: {object} {}", ran.stderr);
            // A result that fails a check is there as well.
            assert_eq!(object.get("rows").is_some(), kind == "check", "{line}: {object}");
        }
    }
}

#[test]
fn every_global_option_but_force_has_an_environment_variable() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("a.yaml"), "tf32: true\n").unwrap();
    let help = sandbox.run(&["--help"]).stdout;
    let globals = help.split_once("Global options:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let name = |line: &str| Some(line.split_once("--")?.1.split([' ', '\n']).next()?.to_owned());
    let is_flag = |line: &&str| line.trim_start().starts_with('-');
    let names: Vec<String> = globals.lines().filter(is_flag).filter_map(name).collect();
    assert!(names.len() >= 14, "{names:?}");
    for name in names {
        let value = match name.as_str() {
            "device" => "cpu",
            "profile" => "training",
            "config" => "a.yaml",
            "threads" | "profile-rows" => "3",
            "memory-limit" => "5GiB",
            "trace" => "trace.json",
            "profile-sort" => "name",
            "profile-table" | "profile-kernels" | "json" | "quiet" | "verbose" | "print-config" | "force" => "1",
            other => panic!("--{other} has no value here"),
        };
        let twin = format!("MELISMA_{}", name.replace('-', "_").to_uppercase());
        let with = |args: &[&str], is_set: bool| {
            let mut command = sandbox.command(args);
            if is_set {
                command.env(&twin, value);
            }
            Ran::from(command.output().unwrap())
        };
        let asked: &[&str] = if name == "print-config" { &[] } else { &["--print-config"] };
        let (with_twin, without) = (with(asked, true), with(asked, false));
        if name == "force" {
            assert_eq!(with_twin.stdout, without.stdout, "{twin} must not exist");
        } else {
            assert_eq!(with_twin.code, 0, "{twin}: {}", with_twin.stderr);
            assert_ne!(with_twin.stdout, without.stdout, "{twin}");
        }
    }
    // Neither does --rm have one: what a variable could delete by mistake is gone.
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/snac/tiny24/model.safetensors"),
        sandbox.path("m.safetensors"),
    )
    .unwrap();
    let ran = sandbox.command(&["pack", "m.safetensors"]).env("MELISMA_RM", "1").output().unwrap();
    assert!(ran.status.success() && sandbox.path("m.safetensors").exists());
}

#[test]
fn switches_may_be_repeated() {
    let sandbox = stocked();
    for line in ["doctor -f -f", "doctor --json --json", "-q doctor -q -q", "doctor -v -v", "-f doctor --force"] {
        assert_eq!(run(&sandbox, line, &[]).code, 0, "{line}");
    }
    let ran = run(&sandbox, "--threads 1 doctor --threads 2 --threads 3 --print-config --json", &[]);
    let config = ran.json();
    assert_eq!(config["config"]["threads"]["value"], 3, "the last one counts");
    // A flag beats the variable of its opposite.
    let loud = sandbox.command(&["doctor", "-v"]).env("MELISMA_QUIET", "1").output().unwrap();
    assert!(!loud.stdout.is_empty() && !loud.stderr.is_empty());
    let quiet = sandbox.command(&["doctor", "-q"]).env("MELISMA_VERBOSE", "1").output().unwrap();
    assert!(quiet.stdout.is_empty() && quiet.stderr.is_empty());
    // Lists grow, and of an output there is one.
    let lists = run(&sandbox, "mel sounds/tone.wav -o m.npy --set n_mels=40 --set hop_length=300 --json", &[]);
    let lists = lists.json();
    assert_eq!(lists["files"][0]["shape"][0], 40, "{lists}");
    assert_eq!(run(&sandbox, "decode t.txt -o a.wav -o b.wav", &[]).code, 2);
}

#[test]
fn a_configuration_file_that_is_not_read_is_named() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("melisma.yaml"), "threads: 3\n").unwrap();
    let home = sandbox.path(".config/melisma/melisma.yaml");
    let ran = sandbox.run(&["doctor"]);
    let note = format!(
        "note: melisma.yaml in this folder is not read; use --config melisma.yaml, or move it to {}\n",
        home.display()
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (0, note.as_str()));
    let place = format!("none; it would be {}", home.display());
    assert!(ran.stdout.lines().any(|line| line.starts_with("config file") && line.ends_with(&place)), "{}", ran.stdout);
    assert_eq!(sandbox.run(&["doctor", "-q"]).stderr, "");
    assert_eq!(sandbox.run(&["doctor", "--config", "./melisma.yaml"]).stderr, "");
    std::fs::create_dir_all(home.parent().unwrap()).unwrap();
    std::fs::copy(sandbox.path("melisma.yaml"), &home).unwrap();
    std::fs::remove_file(sandbox.path("melisma.yaml")).unwrap();
    let used = sandbox.run(&["doctor", "--json"]);
    let doctor = used.json();
    assert_eq!((&doctor["threads"], used.stderr.as_str()), (&json!(3), ""));
    assert_eq!(doctor["config_file"], doctor["config_default"]);
}

#[test]
fn misspelt_variables_are_named() {
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("MELISMA_MEMORYLIMIT", "1GiB").env("MELISMA_THREADS", "2").env("MELISMA_ISA", "scalar");
        Ran::from(command.output().unwrap())
    };
    let told =
        "warning: the environment variable MELISMA_MEMORYLIMIT is not read\nhint: did you mean MELISMA_MEMORY_LIMIT?\n";
    assert_eq!((run(&["doctor"]).code, run(&["doctor"]).stderr.as_str()), (0, told));
    assert_eq!(run(&["doctor", "-q"]).stderr, "");
}

#[test]
fn an_interruption_is_an_object_too() {
    let sandbox = Sandbox::new();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut child = sandbox.start(&["decode", "-", "-o", "out.wav", "--json"]);
        // The output is opened once signals are waited for.
        sandbox.signal_at(&mut child, "out.wav.partial", signal);
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (code, "interrupted\n"));
        let object = ran.json();
        let expected = json!({ "kind": "interrupted", "message": "interrupted", "hint": null, "exit_code": code });
        assert_eq!(object, json!({ "error": expected }));
        assert!(sandbox.files().is_empty(), "{:?}", sandbox.files());
    }
}

/// As in a job of a shell in the background, or under `nohup`.
#[test]
fn signals_that_are_ignored_stay_so() {
    let clip = melisma::audio::Clip::mono(24_000, Vec::new());
    let bytes = melisma::audio::wav::encode(&clip, melisma::audio::wav::SampleFormat::S16).unwrap();
    for signal in ["INT", "TERM", "HUP"] {
        let sandbox = Sandbox::new();
        let mut command = Command::new("sh");
        let program = sandbox.command(&[]);
        let line = format!("trap '' {signal}; exec \"$0\" encode - -o out.json");
        command.args(["-c", &line]).arg(program.get_program());
        command.current_dir(sandbox.directory.path()).env("HOME", sandbox.directory.path());
        let pipes = || std::process::Stdio::piped();
        let mut child = command.stdin(pipes()).stdout(pipes()).stderr(pipes()).spawn().unwrap();
        sandbox.signal_at(&mut child, "out.json.partial", &format!("-{signal}"));
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, sandbox.files()), (0, vec!["out.json".to_owned()]), "{signal}: {}", ran.stderr);
    }
}

/// What is not there, is empty, is a folder or never ends.
#[test]
fn wrong_inputs_are_errors_with_a_hint() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("empty"), "").unwrap();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    let lines = [
        "pack IN -o out.safetensors",
        "pack -t IN",
        "pack -l IN",
        "unpack IN -o out.safetensors",
        "mel IN -o out.npy",
        "dataset info IN",
        "dataset verify IN",
        "decode IN -o out.wav",
        "encode IN -o out.npy",
        "speak Hi. -o out.wav --voice-model IN",
        "run IN -o out",
        "optimize IN --input x=1",
    ];
    for line in lines {
        for input in ["missing", "empty", "folder", "/dev/zero"] {
            // A device without an end is read as a pipe, up to a limit of its own.
            if (line.starts_with("decode") || line.starts_with("encode")) && input == "/dev/zero" {
                continue;
            }
            let ran = sandbox.line(&line.replace("IN", input));
            let told = &ran.stderr;
            assert_eq!(ran.code, 2, "{line} {input}: {told}");
            assert!(told.starts_with("error: ") && told.contains("\nhint: "), "{line} {input}: {told}");
            assert!(told.contains(input) && !told.contains("panicked"), "{line} {input}: {told}");
        }
    }
}
