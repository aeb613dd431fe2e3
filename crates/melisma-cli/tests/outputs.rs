//! Outputs: names that clash, disks that are full, and names that a terminal must not obey.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod melisma;

use std::path::Path;

use melisma::{Ran, Sandbox};
use serde_json::Value;

const FRAME: &str = "<custom_token_10><custom_token_4106><custom_token_8202><custom_token_12298><custom_token_16394>\
                     <custom_token_20490><custom_token_24586>";

fn golden_file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name).to_str().unwrap().to_owned()
}

#[test]
fn two_outputs_of_one_name_are_refused_as_such() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.txt"), FRAME).unwrap();
    std::fs::create_dir(sandbox.path("stems")).unwrap();
    for line in [
        "synth preset:focus -o x.wav --midi x.wav",
        "synth preset:focus -o x.wav --midi ./x.wav",
        "synth preset:focus -o x.wav --trace x.wav",
        "synth preset:focus -o stems/pad.wav --stems stems",
        "decode t.txt -o x.wav --trace x.wav",
        "encode t.txt -o x.txt --trace x.txt",
    ] {
        let before = sandbox.files();
        let ran = sandbox.run(&line.split(' ').collect::<Vec<_>>());
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
    let tone = ::melisma::audio::Clip::mono(24_000, vec![0.1; 24_000]);
    let bytes = ::melisma::audio::wav::write(&tone, ::melisma::audio::wav::SampleFormat::S16).unwrap();
    std::fs::write(sandbox.path("in.wav"), bytes).unwrap();
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
        let ran = sandbox.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 4, "{line}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("error: {name}: ")), "{line}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("No space left") && ran.stderr.contains("\nhint: free some space"),
            "{line}: {}",
            ran.stderr
        );
    }
}

/// Whether a terminal would only show `text`.
fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control())
}

#[cfg(unix)]
#[test]
fn names_cannot_steer_a_terminal() {
    let sandbox = Sandbox::new();
    let evil = "a\u{1b}[2J\u{7}\r\u{9b}31m";
    let tone = ::melisma::audio::Clip::mono(24_000, vec![0.1; 12_000]);
    let bytes = ::melisma::audio::wav::write(&tone, ::melisma::audio::wav::SampleFormat::S16).unwrap();
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
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(object["error"]["message"].as_str().unwrap().starts_with("two\nlines: "), "{object}");
}
