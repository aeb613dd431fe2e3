//! Outputs: names that clash, disks that are full, and names that a terminal must not obey.

use std::path::Path;

use crate::sandbox::{Ran, Sandbox, golden_file};

const FRAME: &str = "<custom_token_10><custom_token_4106><custom_token_8202><custom_token_12298><custom_token_16394>\
                     <custom_token_20490><custom_token_24586>";

const SCORE: &str =
    r#"{"tempo": 90, "notes": [{"instrument": "pad", "start": 0, "duration": 0.1, "key": 60, "velocity": 1}]}"#;

/// A WAV file of one second.
fn tone() -> Vec<u8> {
    let tone = melisma::audio::Clip::mono(24_000, vec![0.1; 24_000]);
    melisma::audio::wav::encode(&tone, melisma::audio::wav::SampleFormat::S16).unwrap()
}

#[test]
fn two_outputs_of_one_name_are_refused_as_such() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.txt"), FRAME).unwrap();
    std::fs::write(sandbox.path("in.wav"), tone()).unwrap();
    std::fs::create_dir(sandbox.path("stems")).unwrap();
    for line in [
        "synth preset:focus -o x.wav --midi x.wav",
        "synth preset:focus -o x.wav --midi ./x.wav",
        "synth preset:focus -o x.wav --trace x.wav",
        "synth preset:focus -o stems/pad.wav --stems stems",
        "decode t.txt -o x.wav --trace x.wav",
        "encode in.wav -o x.txt --trace x.txt",
    ] {
        let before = sandbox.files();
        let ran = sandbox.line(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains(": two outputs of this command have this name\nhint: give each"), "{}", ran.stderr);
        // The trace of a command that failed is kept.
        let after: Vec<String> =
            sandbox.files().into_iter().filter(|name| !line.contains(&format!("--trace {name}"))).collect();
        assert_eq!(after, before, "{line}");
        let _ = std::fs::remove_file(sandbox.path("x.wav"));
        let _ = std::fs::remove_file(sandbox.path("x.txt"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_names_the_output() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.txt"), FRAME.repeat(10)).unwrap();
    std::fs::write(sandbox.path("in.wav"), tone()).unwrap();
    let model = golden_file("snac/tiny24");
    // A file of any suffix on a disk that is always full.
    for name in ["full.wav", "full.flac", "full.mid", "full.txt", "full.npy", "full.safetensors", "full.json"] {
        std::os::unix::fs::symlink("/dev/full", sandbox.path(name)).unwrap();
    }
    std::fs::create_dir(sandbox.path("stems")).unwrap();
    std::os::unix::fs::symlink("/dev/full", sandbox.path("stems/pad.wav")).unwrap();
    let synth = "synth preset:bright --seconds 4 --rate 48000 --device cpu";
    for (line, name) in [
        (format!("decode t.txt -o full.wav --model {model}"), "full.wav"),
        (format!("encode in.wav -o full.txt --model {model}"), "full.txt"),
        (format!("encode in.wav -o full.npy --model {model}"), "full.npy"),
        (format!("{synth} -o full.wav"), "full.wav"),
        (format!("{synth} -o full.flac"), "full.flac"),
        (format!("{synth} -o s1.wav --midi full.mid"), "full.mid"),
        (format!("{synth} -o s2.wav --stems stems"), "stems/pad.wav"),
        ("mel in.wav -o full.npy".to_owned(), "full.npy"),
        ("mel in.wav -o full.safetensors".to_owned(), "full.safetensors"),
        ("doctor --trace full.json".to_owned(), "full.json"),
    ] {
        let ran = sandbox.line(&line);
        assert_eq!(ran.code, 4, "{line}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("error: {name}: ")), "{line}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("No space left") && ran.stderr.contains("\nhint: free some space"),
            "{line}: {}",
            ran.stderr
        );
    }
}

/// A file of weights with one tensor.
fn weights() -> Vec<u8> {
    let json = br#"{"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}      "#;
    [&(json.len() as u64).to_le_bytes()[..], json, &[7; 8]].concat()
}

/// Everything below `folder`, by name.
fn content(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let one = |path: std::path::PathBuf| match path.is_dir() {
        true => content(&path),
        false => vec![(path.clone(), std::fs::read(path).unwrap())],
    };
    let mut content: Vec<_> = paths.flat_map(one).collect();
    content.sort();
    content
}

/// Runs `line` with `-f`, which must say that an output is an input.
fn refuses_input(sandbox: &Sandbox, line: &str) {
    let ran = sandbox.line(&format!("{line} -f"));
    assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
    let told = ": this file is an input of this command\nhint: name another";
    assert!(ran.stderr.contains(told), "{line}: {}", ran.stderr);
}

#[test]
fn no_output_replaces_an_input() {
    let sandbox = Sandbox::new();
    for folder in ["tiny", "cal/one"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for name in [
        "m.safetensors",
        "b.safetensors",
        "in.wav",
        "m.onnx",
        "x.npy",
        "list.txt",
        "a.h5",
        "b.h5",
        "t.txt",
        "s.mid",
        "old",
        "new",
        "tiny/config.json",
        "tiny/model.safetensors",
        "cal/one/x.npy",
        "x.wav.partial",
    ] {
        std::fs::write(sandbox.path(name), name).unwrap();
    }
    std::fs::write(sandbox.path("c.yaml"), "threads: 1\n").unwrap();
    std::os::unix::fs::symlink("in.wav", sandbox.path("link.txt")).unwrap();
    std::fs::hard_link(sandbox.path("in.wav"), sandbox.path("twin.txt")).unwrap();
    std::fs::write(sandbox.path("capture.json"), SCORE).unwrap();
    let preset = sandbox.run(&["synth", "preset:bright", "--print-preset"]);
    std::fs::write(sandbox.path("mine.yaml"), preset.stdout).unwrap();
    let before = content(sandbox.directory.path());
    for line in [
        "pack m.safetensors --trace m.safetensors",
        "pack m.safetensors -o ./m.safetensors",
        "pack m.safetensors --delta b.safetensors -o b.safetensors",
        "pack -l m.safetensors --trace m.safetensors",
        "unpack m.safetensors -o u.safetensors --trace m.safetensors",
        "unpack m.safetensors --delta b.safetensors -o u.safetensors --trace b.safetensors",
        "mel x.npy -o m.npy --trace x.npy",
        "mel x.npy -o x.npy",
        "mel in.wav x.npy -o all.safetensors --trace x.npy",
        "run m.onnx --input x=x.npy -o out --trace m.onnx",
        "run m.onnx --input x=x.npy -o out --trace x.npy",
        "optimize m.onnx --trace m.onnx",
        "optimize m.onnx --input x=x.npy --trace x.npy",
        "optimize m.onnx --calibrate cal --trace cal/one/x.npy",
        "dataset build in.wav -o d.h5 --trace in.wav",
        "dataset build list.txt -o d.h5 --trace list.txt",
        "dataset info a.h5 --trace a.h5",
        "dataset verify a.h5 --trace a.h5",
        "dataset merge a.h5 b.h5 -o d.h5 --trace b.h5",
        "doctor --config c.yaml --trace c.yaml",
        "decode t.txt -o x.wav --trace t.txt",
        "decode t.txt -o x.wav --model tiny --trace tiny/config.json",
        "decode t.txt -o x.wav --model tiny/model.safetensors --trace tiny/config.json",
        "decode t.txt -o x.wav --model tiny --trace tiny/model.safetensors",
        "decode x.wav.partial -o x.wav",
        "encode in.wav -o x.txt --trace in.wav",
        "encode in.wav -o link.txt",
        "encode in.wav -o twin.txt",
        "synth s.mid -o x.wav --trace s.mid",
        "synth s.mid -o x.wav --midi s.mid",
        "synth capture.json -o y.wav --debug-capture .",
        "synth preset:mine.yaml -o mine.yaml --seconds 1",
        "synth preset:./mine.yaml -o y.wav --midi mine.yaml --seconds 1",
        "synth preset:mine.yaml -o y.wav --trace ./mine.yaml --seconds 1",
        "bench compare old new --trace new",
    ] {
        refuses_input(&sandbox, line);
        assert!(content(sandbox.directory.path()) == before, "{line}: {:?}", sandbox.files());
    }
    let variable = sandbox.command(&["doctor", "--config", "c.yaml", "-f"]).env("MELISMA_TRACE", "c.yaml").output();
    assert_eq!(Ran::from(variable.unwrap()).code, 2);
    assert!(content(sandbox.directory.path()) == before);
}

/// Names of outputs that the command makes itself, and inputs that another input names.
#[test]
fn no_derived_output_replaces_an_input() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("two")).unwrap();
    let tone = melisma::audio::Clip::mono(24_000, vec![0.1; 24_000]);
    let bytes = melisma::audio::wav::encode(&tone, melisma::audio::wav::SampleFormat::S16).unwrap();
    // The content says what it is, whatever the name.
    for name in ["two/a.wav", "two/b.wav"] {
        std::fs::write(sandbox.path(name), &bytes).unwrap();
    }
    std::os::unix::fs::symlink("b.wav", sandbox.path("two/b.npy")).unwrap();
    std::fs::write(sandbox.path("m.safetensors"), weights()).unwrap();
    std::fs::write(sandbox.path("m.index.json"), r#"{"weight_map":{"w":"m.safetensors"}}"#).unwrap();
    std::fs::write(sandbox.path("n.safetensors"), weights()).unwrap();
    std::os::unix::fs::symlink("n.safetensors", sandbox.path("n.packed.safetensors")).unwrap();
    std::fs::create_dir(sandbox.path("arrays")).unwrap();
    std::fs::copy(golden_file("optimize/control.onnx"), sandbox.path("control.onnx")).unwrap();
    std::fs::copy(golden_file("optimize/control.x.npy"), sandbox.path("arrays/y.npy")).unwrap();
    std::fs::write(sandbox.path("sounds.txt"), "two/a.wav\ntwo/b.wav\n").unwrap();
    for (line, input) in [
        ("mel two/a.wav two/b.wav -o two", "two/b.wav"),
        ("pack m.index.json --trace m.safetensors", "m.safetensors"),
        ("pack n.safetensors", "n.safetensors"),
        ("run control.onnx --input x=arrays/y.npy -o arrays", "arrays/y.npy"),
        ("dataset build two -o d.h5 --trace two/a.wav", "two/a.wav"),
        ("dataset build sounds.txt -o d.h5 --trace two/b.npy", "two/b.wav"),
    ] {
        let before = std::fs::read(sandbox.path(input)).unwrap();
        refuses_input(&sandbox, line);
        assert_eq!(std::fs::read(sandbox.path(input)).unwrap(), before, "{line}");
    }
    assert!(!sandbox.path("two/a.npy").exists());
}

/// Every run writes the trace that the configuration file or the environment names; one on the command line is refused.
#[test]
fn a_trace_from_the_settings_is_replaced_by_the_next_run() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("c.yaml"), "trace: t.json\n").unwrap();
    std::fs::write(sandbox.path("t.json"), "old").unwrap();
    for _ in 0..2 {
        let ran = sandbox.line("doctor --config c.yaml");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert!(std::fs::read_to_string(sandbox.path("t.json")).unwrap().contains("traceEvents"));
    std::fs::write(sandbox.path("t.json"), "old").unwrap();
    let variable = sandbox.command(&["doctor"]).env("MELISMA_TRACE", "t.json").output().unwrap();
    assert_eq!(Ran::from(variable).code, 0);
    assert!(std::fs::read_to_string(sandbox.path("t.json")).unwrap().contains("traceEvents"));
    let flag = sandbox.line("doctor --trace t.json");
    assert_eq!(flag.code, 2);
    assert!(
        flag.stderr.ends_with("t.json: the file exists already\nhint: use -f to replace it, or choose another name\n")
    );
}

#[test]
fn a_folder_whose_name_is_taken_is_refused_as_such() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("notes"), "mine").unwrap();
    std::fs::write(sandbox.path("in.wav"), "").unwrap();
    for (line, told) in [
        (
            "mel in.wav -o notes",
            "notes: an output without a suffix is a folder, and this is not one\nhint: name a .npy",
        ),
        ("mel in.wav -o /dev/full", "/dev/full: an output without a suffix is a folder, and this is not one\nhint: "),
        ("synth preset:sleep --seconds 1 -o x.wav --stems notes", "notes: this output is a folder, and something else"),
    ] {
        let ran = sandbox.line(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("error: {told}")), "{line}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read(sandbox.path("notes")).unwrap(), b"mine");
}

/// Whether a terminal would only show `text`.
fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control())
}

#[test]
fn names_cannot_steer_a_terminal() {
    let sandbox = Sandbox::new();
    let evil = "a\u{1b}[2J\u{7}\r\u{9b}31m";
    let tone = melisma::audio::Clip::mono(24_000, vec![0.1; 12_000]);
    let bytes = melisma::audio::wav::encode(&tone, melisma::audio::wav::SampleFormat::S16).unwrap();
    let (wav, npy, h5) = (format!("{evil}.wav"), format!("{evil}.npy"), format!("{evil}.h5"));
    std::fs::write(sandbox.path(&wav), &bytes).unwrap();
    std::fs::create_dir(sandbox.path("sounds")).unwrap();
    std::fs::write(sandbox.path("sounds").join(&wav), &bytes).unwrap();
    std::fs::write(sandbox.path("sounds").join(format!("cut{wav}")), &bytes[..20]).unwrap();
    std::fs::copy(golden_file("snac/tiny24/model.safetensors"), sandbox.path(&format!("{evil}.safetensors"))).unwrap();
    let model = golden_file("snac/tiny24");
    let weights = format!("{evil}.safetensors");
    for args in [
        &["decode", &wav, "-o", "x.wav"][..],
        &["decode", evil, "-o", "x.wav"],
        &["encode", &wav, "-o", &npy, "--model", &model, "--trace", &h5],
        &["encode", &wav, "-o", &npy, "--model", evil],
        &["synth", evil, "-o", "x.wav"],
        &["synth", "preset:focus", "-o", "x.wav", "--loudness", evil],
        &["synth", "preset:sleep", "-o", &format!("s{wav}"), "--seconds", "1", "--rate", "8000"],
        &["mel", &wav, "-o", &format!("m{npy}")],
        &["dataset", "build", "sounds", "-o", &format!("d{h5}"), "--segment", "100ms"],
        &["dataset", "info", &format!("d{h5}")],
        &["pack", &weights],
        &["pack", "-l", &weights],
        &["unpack", &weights],
        &["run", evil, "-o", "out"],
        &["doctor", "--device", evil],
        &["doctor", "--cache-dir", evil],
        &["bench", evil],
        &[evil],
    ] {
        let ran = Ran::from(sandbox.command(args).env("MELISMA_CACHE_DIR", evil).output().unwrap());
        assert!(is_harmless(&ran.stdout) && is_harmless(&ran.stderr), "{args:?}: {ran:?}");
    }
    let doctor = sandbox.command(&["doctor"]).env("MELISMA_CACHE_DIR", evil).output().unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(is_harmless(&text) && text.contains("a\\u{1b}[2J\\u{7}\\r\\u{9b}31m"), "{text}");
    // An error is one line, whatever a name holds; JSON has the name itself.
    let ran = sandbox.run(&["decode", "two\nlines", "-o", "x.wav", "--json"]);
    assert!(ran.stderr.starts_with("error: two\\nlines: "), "{}", ran.stderr);
    let object = ran.json();
    assert!(object["error"]["message"].as_str().unwrap().starts_with("two\nlines: "), "{object}");
}
