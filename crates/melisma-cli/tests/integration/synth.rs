//! `melisma synth`.

use std::io::Read;

use melisma::audio::wav;
use melisma::synth::{Score, Style, compose};
use serde_json::Value;

use crate::sandbox::{self, Ran, Sandbox, golden};

pub fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ran = sandbox.run(&[args, &["--json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}: {}", ran.stderr);
    ran.json()
}

#[test]
fn a_preset_to_wav_midi_and_stems() {
    let sandbox = Sandbox::new();
    let result = json(
        &sandbox,
        &[
            "synth",
            "preset:focus",
            "-o",
            "a.wav",
            "--seconds",
            "6",
            "--rate",
            "24000",
            "--stems",
            "stems",
            "--midi",
            "a.mid",
        ],
    );
    assert_eq!(result["samples"], 6 * 24_000);
    assert_eq!(result["sample_rate_hz"], 24_000);
    assert_eq!(result["audio_seconds"], 6.0);
    assert_eq!(result["device"], "cpu");
    assert!((result["loudness_lufs"].as_f64().unwrap() + 18.0).abs() < 0.2, "{result}");
    assert!(result["peak_dbtp"].as_f64().unwrap() <= -1.0, "{result}");
    for key in ["voices", "notes", "wall_seconds"] {
        assert!(result[key].as_f64().unwrap() > 0.0, "{key}");
    }
    let clip = wav::decode(&std::fs::read(sandbox.path("a.wav")).unwrap()).unwrap().to_clip();
    assert_eq!((clip.n_frames(), clip.n_channels, clip.sample_rate), (6 * 24_000, 2, 24_000));
    let score = Score::from_midi(&std::fs::read(sandbox.path("a.mid")).unwrap()).unwrap();
    assert_eq!(score.notes.len() as u64, result["notes"].as_u64().unwrap());
    let stems = result["stems"].as_array().unwrap();
    assert!(stems.iter().any(|path| path == "stems/pad.wav"), "{stems:?}");
    assert_eq!(sandbox.files(), ["a.mid", "a.wav", "stems"]);
}

#[test]
fn the_same_bytes_whatever_the_threads() {
    let sandbox = Sandbox::new();
    for (name, threads) in [("a.flac", "1"), ("b.flac", "3")] {
        let ran = sandbox.run(&[
            "synth",
            "preset:bright",
            "-o",
            name,
            "--seconds",
            "4",
            "--threads",
            threads,
            "--seed",
            "a word",
        ]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("LUFS") && ran.stdout.contains("dBTP"), "{}", ran.stdout);
    }
    assert!(std::fs::read(sandbox.path("a.flac")).unwrap() == std::fs::read(sandbox.path("b.flac")).unwrap());
}

#[test]
fn scores_in_json_and_midi() {
    let sandbox = Sandbox::new();
    let score = compose(&Style::named("meditation").unwrap(), 5, 4.0).unwrap();
    std::fs::write(sandbox.path("a.json"), score.to_json()).unwrap();
    std::fs::write(sandbox.path("a.mid"), score.to_midi().unwrap()).unwrap();
    let flags = ["--rate", "8000", "--loudness", "off", "--sample-format", "f32"];
    for name in ["a.json", "a.mid"] {
        let result = json(&sandbox, &[&["synth", name, "-o", "out.wav", "-f"][..], &flags].concat());
        assert_eq!(result["notes"], score.notes.len());
        assert_eq!(result["gain_db"], 0.0);
        assert!(result["audio_seconds"].as_f64().unwrap() > 4.0);
    }
}

#[test]
fn clips_go_into_a_dataset() {
    let sandbox = Sandbox::new();
    let make = |folder: &str, threads: &str| {
        let args = [
            "synth",
            "preset:bright",
            "-o",
            folder,
            "--clips",
            "3",
            "--seconds",
            "2",
            "--rate",
            "22050",
            "--seed",
            "40",
            "--threads",
            threads,
        ];
        json(&sandbox, &args)
    };
    let result = make("clips", "2");
    assert_eq!((result["clips"].as_u64(), result["samples"].as_u64()), (Some(3), Some(3 * 44_100)));
    make("again", "1");
    for name in ["clip_000000.wav", "clip_000002.wav", "clip_000001.json"] {
        let read = |folder: &str| std::fs::read(sandbox.path(folder).join(name)).unwrap();
        assert!(read("clips") == read("again"), "{name}");
    }
    let facts: Value = serde_json::from_slice(&std::fs::read(sandbox.path("clips/clip_000001.json")).unwrap()).unwrap();
    assert_eq!((facts["seed"].as_u64(), facts["audio"].as_str()), (Some(41), Some("clip_000001.wav")));
    assert!(facts["parameters"]["beat_us"].is_u64() && facts["parameters"]["controls"].is_array(), "{facts}");
    Score::from_json(facts["score"].to_string().as_bytes()).unwrap();
    let ran = sandbox.run(&["dataset", "build", "clips", "-o", "train.h5", "--segment", "1s", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let built = ran.json();
    assert_eq!((built["files_ok"].as_u64(), built["segments"].as_u64()), (Some(3), Some(6)));
}

/// The parts of a render under their names, in the trace file and in the table.
#[test]
fn traces_name_the_parts() {
    let sandbox = Sandbox::new();
    let args = ["synth", "preset:bright", "-o", "a.wav", "--seconds", "8", "--rate", "8000", "--threads", "2"];
    let plain = sandbox.run(&args);
    assert_eq!(plain.code, 0, "{}", plain.stderr);
    let sound = std::fs::read(sandbox.path("a.wav")).unwrap();
    let traced = sandbox.run(&[&args[..], &["-f", "--trace", "trace.json", "--profile-table"]].concat());
    assert_eq!(traced.code, 0, "{}", traced.stderr);
    assert!(std::fs::read(sandbox.path("a.wav")).unwrap() == sound, "a trace changes the sound");
    let trace: Value = serde_json::from_slice(&std::fs::read(sandbox.path("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().or(trace.as_array()).unwrap();
    for part in ["chord", "melody", "percussion", "mix", "interleave"] {
        assert!(events.iter().any(|event| event["name"] == part), "{part} is not in the trace");
        assert!(traced.stderr.lines().any(|line| line.starts_with(part)), "{part} is not in:\n{}", traced.stderr);
    }
}

#[test]
fn the_device_is_said() {
    let sandbox = Sandbox::new();
    let flags = ["synth", "preset:sleep", "-o", "a.wav", "--seconds", "2", "--rate", "8000"];
    let result = json(&sandbox, &[&flags[..], &["--device", "auto"]].concat());
    assert_eq!(result["device"], "cpu");
    assert!(result["device_reason"].as_str().unwrap().ends_with("of work, short enough for the CPU"), "{result}");
    let ran = sandbox.run(&[&flags[..], &["-f", "--device", "cpu"]].concat());
    assert!(ran.stdout.contains("voices on cpu: asked for"), "{}", ran.stdout);
}

#[test]
fn captures_are_left_behind() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["synth", "preset:sleep", "-o", "a.wav", "--seconds", "3", "--debug-capture", "debug"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let clip = wav::decode(&std::fs::read(sandbox.path("debug/capture.wav")).unwrap()).unwrap().to_clip();
    assert_eq!(clip.n_frames(), 48_000);
    let again = ["synth", "preset:sleep", "-o", "b.wav", "--seconds", "1", "--debug-capture", "debug"];
    let refused = sandbox.run(&again);
    assert_eq!(
        (refused.code, refused.stderr.contains("debug/capture.wav: the file exists already")),
        (2, true),
        "{}",
        refused.stderr
    );
    assert_eq!(sandbox.run(&[&again[..], &["-f"]].concat()).code, 0);
}

#[test]
fn what_was_not_reached_is_said() {
    let sandbox = Sandbox::new();
    let flags = ["--seconds", "4", "--rate", "8000"];
    let loud = sandbox
        .run(&[&["synth", "preset:bright", "-o", "a.wav", "--loudness", "-3", "--stems", "s"], &flags[..]].concat());
    assert_eq!(loud.code, 0, "{}", loud.stderr);
    assert!(loud.stderr.contains("LUFS instead of -3: the limiter holds peaks at -1 dBTP\n"), "{}", loud.stderr);
    assert!(loud.stderr.contains("of the stems clipped at full scale"), "{}", loud.stderr);
    // A note so soft that 40 dB are not enough, and nothing near the limiter.
    let note = "{\"instrument\": \"pad\", \"start\": 0, \"duration\": 2, \"key\": 40, \"velocity\": 0.1}";
    std::fs::write(sandbox.path("soft.json"), format!("{{\"tempo\": 60, \"notes\": [{note}]}}")).unwrap();
    let soft = sandbox.run(&["synth", "soft.json", "-o", "soft.wav", "--loudness", "-5"]);
    assert!(soft.stderr.contains("too quiet for the largest gain of 40 dB\n"), "{}", soft.stderr);
    assert!(soft.stdout.contains(": 1 note, up to 1 voice, "), "{}", soft.stdout);
    std::fs::write(sandbox.path("none.json"), "{\"tempo\": 60, \"notes\": []}").unwrap();
    let silent = sandbox.run(&["synth", "none.json", "-o", "none.wav", "--seconds", "1"]);
    assert!(silent.stdout.contains(": 0 notes, up to 0 voices, silent\n"), "{}", silent.stdout);
    let short = sandbox.run(&["synth", "preset:bright", "-o", "short.wav", "--seconds", "0.2"]);
    assert!(short.stdout.contains(" dBTP, too short or quiet to measure the loudness\n"), "{}", short.stdout);
    let usual = sandbox.run(&[&["synth", "preset:bright", "-o", "b.wav"], &flags[..]].concat());
    assert_eq!((usual.code, usual.stderr.contains("note:")), (0, false), "{}", usual.stderr);
    let piped = sandbox.command(&[&["synth", "preset:bright", "-o", "-"], &flags[..]].concat()).output().unwrap();
    assert!(piped.status.success() && piped.stdout.starts_with(b"RIFF"), "{}", String::from_utf8_lossy(&piped.stderr));
    assert_eq!(wav::decode(&piped.stdout).unwrap().to_clip().n_frames(), 32_000);
    let args = [&["synth", "preset:bright", "-o", "-", "--stems", "beside"], &flags[..]].concat();
    assert!(sandbox.command(&args).output().unwrap().status.success());
    assert!(sandbox.path("beside/pad.wav").exists(), "a pipe's stems are WAV too");
}

#[test]
fn a_listener_may_leave() {
    let sandbox = Sandbox::new();
    let args = ["synth", "preset:sleep", "-o", "-", "--seconds", "20", "--loudness", "off", "--midi", "a.mid"];
    let pipe = || std::process::Stdio::piped();
    let mut child = sandbox.command(&args).stdout(pipe()).stderr(pipe()).spawn().unwrap();
    let mut first = [0; 1000];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(sandbox.files(), ["a.mid"], "the notes are written all the same");
}

#[test]
fn clips_go_on_where_they_were_interrupted() {
    let sandbox = Sandbox::new();
    let args = |folder: &'static str| {
        ["synth", "preset:bright", "-o", folder, "--clips", "6", "--seconds", "3", "--rate", "16000", "--threads", "2"]
    };
    let parts = sandbox.path("parts");
    let all = json(&sandbox, &args("whole"));
    assert_eq!((&all["clips"], &all["clips_kept"]), (&6.into(), &0.into()));
    let files = |folder: &str| {
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(sandbox.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
            .collect();
        files.sort();
        files
    };
    for signal in ["-INT", "-KILL"] {
        // Where this test gets too little time to catch the program at work, it tries again.
        let ran = (0..100).find_map(|_| {
            let _ = std::fs::remove_dir_all(&parts);
            let mut child = sandbox.start(&args("parts"));
            while !parts.join("clip_000001.wav").exists() {
                if child.try_wait().unwrap().is_some() {
                    return None;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            sandbox::send(&child, signal);
            let ran = child.wait_with_output().unwrap();
            (!ran.status.success() && files("parts").len() < 12).then_some(ran)
        });
        let ran = ran.unwrap();
        let told = "interrupted; the finished clips stay in parts; run the same command again to resume\n";
        assert_eq!(String::from_utf8(ran.stderr).unwrap(), if signal == "-INT" { told } else { "" });
        let resumed = json(&sandbox, &args("parts"));
        assert!((1..6).contains(&resumed["clips_kept"].as_u64().unwrap()), "{resumed}");
        assert!(files("parts") == files("whole"), "{signal}");
    }
    assert_eq!(json(&sandbox, &args("parts"))["clips_kept"], 6, "nothing is left to do");

    // A label without its audio is what a kill between the two leaves.
    std::fs::remove_file(sandbox.path("parts/clip_000003.wav")).unwrap();
    assert_eq!(json(&sandbox, &args("parts"))["clips_kept"], 5);
    assert!(files("parts") == files("whole"));

    let refused = |more: &[&str], message: &str| {
        let ran = sandbox.run(&[&args("parts")[..], more].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(message) && ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    };
    refused(&["--seed", "1"], "clip_000000.json: this clip was made with another `seed`");
    refused(&["--sample-format", "f32"], "clip_000000.json: this clip was made with another `sample_format`");
    refused(&["--loudness", "-20"], "clip_000000.json: this clip was made with another `loudness_target_lufs`");
    let path = sandbox.path("parts/clip_000002.wav");
    let mut damaged = std::fs::read(&path).unwrap();
    damaged[1000] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    refused(&[], "clip_000002.wav: not the audio that its label names");
    std::fs::remove_file(sandbox.path("parts/clip_000002.json")).unwrap();
    refused(&[], "clip_000002.wav: the file exists already, without a label");
    assert_eq!(sandbox.run(&[&args("parts")[..], &["-f"]].concat()).code, 0);
    assert!(files("parts") == files("whole"));
}

#[test]
fn what_is_refused() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("bad.json"), "{\"tempo\": 120, \"notes\": [{\"instrument\": \"pad\", \"start\": 0,\n\"duration\": 1, \"key\": 128, \"velocity\": 1}]}").unwrap();
    std::fs::write(sandbox.path("nan.json"), "{\"tempo\": NaN, \"notes\": []}").unwrap();
    std::fs::write(sandbox.path("days.json"), "{\"tempo\": 60, \"notes\": [{\"instrument\": \"pad\", \"start\": 0, \"duration\": 300000, \"key\": 1, \"velocity\": 1}]}").unwrap();
    std::fs::write(sandbox.path("cut.mid"), b"MThd\0\0\0\x06\0\x01\xff\xff\0\x60MTrk\0\0\0\x04\0\xff\x2f\0").unwrap();
    std::fs::write(sandbox.path("tempo.mid"), b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk\0\0\0\x07\0\xff\x51\x03\0\0\0")
        .unwrap();
    std::fs::write(sandbox.path("empty.mid"), b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk\0\0\0\x04\0\xff\x2f\0").unwrap();
    std::fs::write(sandbox.path("there.wav"), b"").unwrap();
    let mut text = String::new();
    for args in [
        &["preset:loud", "-o", "a.wav"][..],
        &["song.xyz", "-o", "a.wav"],
        &["focus", "-o", "a.wav"],
        &["there.wav", "-o", "a.wav"],
        &[".", "-o", "a.wav"],
        &["none.mid", "-o", "a.wav"],
        &["bad.json", "-o", "a.wav"],
        &["bad.json", "-o", "a.wav", "--seed", "3"],
        &["preset:focus", "-o", "a.wav", "--midi", "-"],
        &["nan.json", "-o", "a.wav"],
        &["days.json", "-o", "a.wav"],
        &["cut.mid", "-o", "a.wav"],
        &["tempo.mid", "-o", "a.wav"],
        &["empty.mid", "-o", "a.wav"],
        &["preset:focus", "-o", "a.aac"],
        &["preset:focus", "-o", "a.opus", "--sample-format", "f32"],
        &["preset:focus", "-o", "a.flac", "--sample-format", "f32"],
        &["preset:focus", "-o", "there.wav"],
        &["preset:focus", "-o", "a.wav", "--seconds", "0"],
        &["preset:focus", "-o", "a.wav", "--seconds", "-1"],
        &["preset:focus", "-o", "a.wav", "--seconds", "NaN"],
        &["preset:focus", "-o", "a.wav", "--seconds", "1:30"],
        &["preset:focus", "-o", "a.wav", "--rate", "7999"],
        &["preset:focus", "-o", "a.wav", "--loudness", "loud"],
        &["preset:focus", "-o", "a.wav", "--clips", "2"],
        &["preset:focus", "-o", "a", "--clips", "2", "--stems", "s"],
        &["bad.json", "-o", "a", "--clips", "2"],
        &["preset:focus", "-o", "a.wav", "--endless"],
        &["preset:focus", "-o", "-", "--endless", "--loudness", "-14"],
        &["preset:focus", "-o", "a.wav", "--tempo", "-1"],
        &["preset:focus", "-o", "a.wav", "--key", "H"],
        &["preset:focus", "-o", "a.wav", "--voices", "bass"],
        &["bad.json", "-o", "a.wav", "--reverb", "0.5"],
        &["preset:focus", "-o", "a", "--clips", "2", "--key", "C"],
    ] {
        let ran = sandbox.run(&[&["synth"], args].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {}", ran.stderr);
        text += &format!("$ melisma synth {}\n{}", args.join(" "), ran.stderr);
    }
    golden("synth_errors.txt", &text);
    assert!(!sandbox.files().iter().any(|name| name.ends_with(".partial") || name == "a.wav"), "{:?}", sandbox.files());
}
