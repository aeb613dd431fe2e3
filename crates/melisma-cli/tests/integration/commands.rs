//! Help, JSON and what each command does.

use melisma::audio::{flac, wav};
use melisma::text::base64;
use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, golden};

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ran = sandbox.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    let value = ran.json();
    assert!(value.is_object() && value["device"].is_string(), "{value}");
    value
}

#[test]
fn every_help_text_has_two_examples() {
    let sandbox = Sandbox::new();
    for args in [
        &["--help"][..],
        &["demo", "--help"],
        &["speak", "--help"],
        &["decode", "--help"],
        &["encode", "--help"],
        &["bench", "--help"],
        &["bench", "compare", "--help"],
        &["bench", "sheet", "--help"],
        &["pack", "--help"],
        &["unpack", "--help"],
        &["run", "--help"],
        &["synth", "--help"],
        &["mel", "--help"],
        &["dataset", "--help"],
        &["dataset", "build", "--help"],
        &["dataset", "info", "--help"],
        &["dataset", "verify", "--help"],
        &["dataset", "merge", "--help"],
        &["optimize", "--help"],
        &["cache", "--help"],
        &["cache", "list", "--help"],
        &["cache", "verify", "--help"],
        &["cache", "clear", "--help"],
        &["serve", "--help"],
        &["doctor", "--help"],
        &["completions", "--help"],
    ] {
        let ran = sandbox.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        let (_, examples) = ran.stdout.split_once("Examples:\n").unwrap();
        assert_eq!(examples.lines().filter(|line| line.starts_with("  melisma ")).count(), 2, "{args:?}");
        let name = args[..args.len() - 1].join("_");
        golden(&format!("help{}{name}.txt", if name.is_empty() { "" } else { "_" }), &ran.stdout);
    }
}

#[test]
fn json_is_one_object_with_the_device() {
    let sandbox = Sandbox::new();
    let doctor = json(&sandbox, &["--json", "--device", "cpu", "doctor"]);
    assert_eq!(doctor["device"], "cpu");
    assert!(doctor["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(doctor["cuda"]["gpus"].is_array() && doctor["caches"]["kernels"]["bytes"].is_u64());
    let config = json(&sandbox, &["--print-config", "--json"]);
    assert_eq!(config["config"]["profile"]["value"], "field");
    assert!(json(&sandbox, &["completions", "zsh", "--json"])["script"].as_str().unwrap().contains("melisma"));
}

/// A demo takes long: what is known of its report is asked of one.
#[test]
fn the_demo_replaces_a_report_only_by_force() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("melisma-demo")).unwrap();
    let report = sandbox.path("melisma-demo/report.html");
    std::fs::write(&report, "mine").unwrap();
    let refused = sandbox.run(&["demo"]);
    assert_eq!(refused.code, 2);
    let message = "melisma-demo/report.html: the file exists already\nhint: use -f";
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "mine");
    let args = ["demo", "-f", "--json", "--trace", "trace.json", "--profile-table", "--profile-sort", "name"];
    let (ran, peak) = sandbox.measure(&[&args[..], &["--device", "cpu", "--memory-limit", "256MiB"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    peak.check(256 << 20);
    assert!(ran.stderr.contains("self") && ran.stderr.contains(" busy "), "{}", ran.stderr);
    let demo = ran.json();
    assert_eq!(demo["device"], "cpu");
    let steps: Vec<&str> = demo["steps"].as_array().unwrap().iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(steps, ["machine", "runtime", "speak", "snac", "synth", "mel", "pack", "optimize", "serve"]);
    assert!(demo["steps"][0]["seconds"].is_f64());
    assert_eq!(demo["report"], "melisma-demo/report.html");
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.starts_with("<!doctype html>"));
    assert!(html.split("<section id=").nth(1).unwrap().starts_with("\"speak\">"), "speech comes first");
    assert!(html.contains("<section id=\"serve\">") && html.contains("<section id=\"next\">"), "{html}");
    let optimize = html.split("<section id=\"optimize\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(optimize.contains("Its speed: ") && optimize.contains(" on this machine (p50 "), "{optimize}");
    assert!(optimize.contains("difference from another engine") && !optimize.contains("0.0e0"), "{optimize}");
    let mut left: Vec<_> = std::fs::read_dir(sandbox.path("melisma-demo"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let files = ["clip.wav", "decoder.onnx", "model.safetensors", "report.html", "speech.wav", "wavs", "z.npy"];
    assert_eq!(left, files, "the files of the commands, and no partial file");
    check_page(&html);
    let trace: Value = serde_json::from_slice(&std::fs::read(sandbox.path("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "step" && event["args"]["step"] == "machine"), "{events:?}");
    check_commands(&sandbox, "melisma-demo");
}

/// Checks that the report is one file that loads nothing, with speech and tables where they belong.
fn check_page(html: &str) {
    assert!(html.trim_end().ends_with("</html>"));
    let elsewhere = ["audio/flac", "image/png"]
        .iter()
        .fold(html.to_owned(), |html, kind| html.replace(&format!("src=\"data:{kind};base64,"), ""));
    for loaded in ["src=", "href=", "@import", "url("] {
        assert!(!elsewhere.contains(loaded), "{loaded}");
    }
    assert_eq!(html.matches("<audio controls").count(), 8);
    assert!(html.contains("<svg") && html.contains("tokens accepted") && html.contains("stateful stream"));
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(at("<audio controls") < at("<dl class=\"facts\">") && at("<dl class=\"facts\">") < at("<pre>"));
    assert!(at("</section>\n<details") < at("<table>"), "a table comes before the fold");
}

/// Runs every command of the report in its folder.
fn check_commands(sandbox: &Sandbox, folder: &str) {
    let html = std::fs::read_to_string(sandbox.path(folder).join("report.html")).unwrap();
    let blocks = html.split("<pre>").skip(1).map(|block| block.split("</pre>").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert_eq!(lines.len(), 12, "{lines:?}");
    for line in lines {
        let args: Vec<&str> = line.strip_prefix("melisma ").unwrap_or_else(|| panic!("{line}")).split(' ').collect();
        let ran = Ran::from(sandbox.command(&args).current_dir(sandbox.path(folder)).output().unwrap());
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
    }
    let read = |name: &str| std::fs::read(sandbox.path(folder).join(name)).unwrap();
    assert!(read("unpacked.safetensors") == read("model.safetensors"));
    let piece = flac::encode(&wav::decode(&read("focus.wav")).unwrap().to_clip(), flac::Depth::S16).unwrap();
    assert!(html.contains(&base64::encode(&piece)), "the command does not give the piece of the page");
}

#[test]
fn a_peer_that_is_left_out_is_named_once() {
    let sandbox = Sandbox::new();
    let run = |flags: &[&str]| {
        let args = [&["bench", "dataset/opus", "--device", "cpu", "-o", "record.json"], flags].concat();
        Ran::from(sandbox.command(&args).env("MELISMA_PYTHON", "/no/such/python").output().unwrap())
    };
    let ran = run(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("note: a peer is left out: /no/such/python: "), "{}", ran.stderr);
    assert!(ran.stderr.lines().count() == 1 && !ran.stdout.contains("left out"), "{}{}", ran.stderr, ran.stdout);
    let record: Value = serde_json::from_slice(&std::fs::read(sandbox.path("record.json")).unwrap()).unwrap();
    assert_eq!(record["notes"].as_array().unwrap().len(), 1);
    assert_eq!(run(&["-f", "-q"]).stderr, "");
}

#[test]
fn flags_go_before_or_after_the_command_and_beat_the_environment() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("a.yaml"), "threads: 2\nmemory_limit: 1GiB\n").unwrap();
    let run = |args: &[&str]| {
        let output =
            sandbox.command(args).env("MELISMA_MEMORY_LIMIT", "2GiB").env("MELISMA_JSON", "1").output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    for args in [
        &["--threads", "3", "--config", "a.yaml", "doctor", "--print-config"][..],
        &["doctor", "--print-config", "--threads", "3", "--config", "a.yaml"],
    ] {
        let config = &run(args)["config"];
        assert_eq!(config["threads"], serde_json::json!({ "value": 3, "from": "--threads" }));
        assert_eq!(config["memory_limit"]["from"], "MELISMA_MEMORY_LIMIT");
        assert_eq!(config["memory_limit"]["value"], 2u64 << 30);
    }
}

#[test]
fn print_config_says_where_each_value_came_from() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("a.yaml"), "profile: training\ntf32: true\n").unwrap();
    let ran = sandbox
        .command(&["--print-config", "--config", "a.yaml", "--threads", "4"])
        .env("MELISMA_DEVICE", "cpu")
        .env("MELISMA_CACHE_DIR", "/cache")
        .output()
        .unwrap();
    golden("print_config.txt", &String::from_utf8(ran.stdout).unwrap());
}

#[test]
fn doctor_works_without_a_gpu() {
    let sandbox = Sandbox::new();
    let output = sandbox.command(&["doctor"]).env("LD_LIBRARY_PATH", "").env("TERM", "dumb").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for what in [
        "cpu features",
        "instruction set",
        "memory",
        "cuda driver",
        "cuda nvrtc",
        "engine rten",
        "engine melisma-chain",
        "engine melisma-mixed",
        "engine onnxruntime ",
        "engine onnxruntime-cuda",
        "engine onnxruntime-tensorrt",
        "cache kernels",
        "will use",
    ] {
        assert!(text.lines().any(|line| line.starts_with(what)), "{what} in {text}");
    }
}

#[test]
fn the_trace_is_written_when_the_command_fails() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["bench", "cellar", "--trace", "trace.json"]);
    assert_eq!(ran.code, 2);
    assert_eq!(sandbox.files(), ["trace.json"]);
}

#[test]
fn a_loss_beyond_a_tenth_is_code_3() {
    let sandbox = Sandbox::new();
    let record = |median: f64| {
        let row = serde_json::json!({ "name": "a/copy", "unit": "GB/s", "median": median, "spread": 0.01, "n": 9,
            "ceiling": null, "peers": [] });
        serde_json::json!({ "machine": "test", "rows": [row], "device": "cpu" }).to_string()
    };
    for (name, median) in [("old", 10.0), ("same", 9.5), ("slow", 8.0)] {
        std::fs::write(sandbox.path(name), record(median)).unwrap();
    }
    assert_eq!(sandbox.run(&["bench", "compare", "old", "same"]).code, 0);
    let slow = sandbox.run(&["bench", "compare", "old", "slow"]);
    assert_eq!(slow.code, 3);
    assert!(slow.stdout.contains("-20.0 %"), "{}", slow.stdout);
    assert!(slow.stderr.starts_with("error: more than 10 % lost: a/copy\nhint: "), "{}", slow.stderr);
}

#[test]
fn completions_exist_for_the_common_shells() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = sandbox.run(&["completions", shell]);
        assert!(ran.code == 0 && ran.stdout.contains("print-config"), "{shell}");
    }
}
