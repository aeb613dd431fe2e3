//! `melisma synth`: presets, their changes and files, SoundFonts, music without an end.

use std::io::Read;

use melisma::audio::wav;
use melisma::synth::{Style, Variation, compose};

use crate::sandbox::{self, Ran, Sandbox, golden};
use crate::synth::json;

/// The same changes to a preset on the command line as in the library, which the server and Python use too.
#[test]
fn changes_to_a_preset_are_those_of_the_library() {
    let sandbox = Sandbox::new();
    let changes = [
        ("key", "F#"),
        ("mode", "lydian"),
        ("tempo", "120"),
        ("intensity", "0.8"),
        ("voices", "melody"),
        ("reverb", "0"),
    ];
    let mut variation = Variation::default();
    changes.iter().for_each(|(name, value)| variation.set(name, value).unwrap());
    let score = compose(&variation.apply(Style::named("focus").unwrap()), 7, 4.0).unwrap();
    std::fs::write(sandbox.path("a.json"), score.to_json()).unwrap();
    let flags: Vec<String> = changes.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let common = ["--seconds", "4", "--rate", "8000"];
    let notes = ["--midi", "a.mid"];
    json(&sandbox, &[&["synth", "preset:focus", "-o", "a.wav", "--seed", "7"][..], &flags, &common, &notes].concat());
    json(&sandbox, &[&["synth", "a.json", "-o", "b.wav"][..], &common].concat());
    json(&sandbox, &[&["synth", "preset:focus", "-o", "c.wav", "--seed", "7"][..], &common].concat());
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("a.wav") == read("b.wav"), "the changes sound otherwise");
    assert!(read("a.wav") != read("c.wav"), "the changes have no effect");
    // The tests of the Python package read the same file.
    let hex: Vec<String> =
        read("a.mid").chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    golden("synth_changes_midi.txt", &(hex.join("\n") + "\n"));
}

/// Without `--seconds`, an endless piece goes on until its reader leaves, or until a signal.
#[cfg(unix)]
#[test]
fn an_endless_pipe_ends_with_its_reader_or_a_signal() {
    let sandbox = Sandbox::new();
    let args = ["synth", "preset:sleep", "-o", "-", "--endless", "--rate", "8000"];
    let timed = [&args[..], &["--seconds", "70"]].concat();
    let whole = sandbox.command(&timed).output().unwrap().stdout;
    let mut child = sandbox.start(&args);
    let mut start = vec![0; whole.len()];
    let mut pipe = child.stdout.take().unwrap();
    // Longer than the default length of a piece.
    pipe.read_exact(&mut start).unwrap();
    assert!(start == whole, "the first 70 s differ");
    drop(pipe);
    let left = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((left.code, left.stderr.as_str()), (0, ""));
    let mut child = sandbox.start(&args);
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut start[..1000]).unwrap();
    sandbox::send(&child, "-INT");
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).unwrap();
    let ended = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("of audio in") && !ended.stderr.contains("interrupted"), "{}", ended.stderr);
    // Whole frames: a block is never cut.
    assert_eq!((1000 + rest.len() - 44) % 4, 0);
}

/// A preset that is printed, edited and played from its file, and listed beside the others.
#[test]
fn presets_are_files_too() {
    let sandbox = Sandbox::new();
    let printed = sandbox.run(&["synth", "preset:bright", "--print-preset"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    std::fs::create_dir(sandbox.path("mine")).unwrap();
    std::fs::write(sandbox.path("mine/same.yaml"), &printed.stdout).unwrap();
    let short = ["--seconds", "2", "--rate", "8000", "--seed", "3"];
    let render = |preset: &str, name: &str, more: &[&str]| {
        json(&sandbox, &[&["synth", preset, "-o", name][..], &short, more].concat());
        std::fs::read(sandbox.path(name)).unwrap()
    };
    let built_in = render("preset:bright", "a.wav", &[]);
    assert!(render("preset:./mine/same.yaml", "b.wav", &[]) == built_in, "the printed preset sounds otherwise");
    let slow = sandbox.run(&["synth", "preset:bright", "--key", "A", "--tempo", "60", "--print-preset"]);
    std::fs::write(sandbox.path("mine/slow.yaml"), &slow.stdout).unwrap();
    let changed = render("preset:bright", "c.wav", &["--key", "A", "--tempo", "60"]);
    assert!(render("preset:mine/slow.yaml", "d.wav", &[]) == changed && changed != built_in);
    std::fs::write(sandbox.path("mine/broken.yaml"), "volume: 3\n").unwrap();
    let listed = sandbox.run(&["synth", "--list", "mine"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    for name in ["preset:focus", "preset:sleep", "preset:mine/same.yaml", "preset:mine/slow.yaml"] {
        assert!(listed.stdout.lines().any(|line| line.starts_with(name)), "{name}: {}", listed.stdout);
    }
    assert!(listed.stderr.contains("note: not a preset: mine/broken.yaml") && !listed.stdout.contains("broken"));
    let facts = json(&sandbox, &["synth", "--list"]);
    assert_eq!(facts["presets"].as_array().unwrap().len(), 4);
    assert_eq!((&facts["presets"][0]["preset"], &facts["presets"][0]["key"]), (&"preset:focus".into(), &"D".into()));
    let one = json(&sandbox, &["synth", "--list", "preset:mine/slow.yaml"]);
    assert_eq!((&one["presets"][0]["key"], &one["presets"][0]["tempo"]), (&"A".into(), &60.0.into()));
    for (args, message) in [
        (&["preset:mine/broken.yaml", "-o", "e.wav"][..], "mine/broken.yaml: "),
        (&["preset:mine/none.yaml", "-o", "e.wav"], "mine/none.yaml: "),
        (&["a.mid", "--print-preset"], "only a preset can be printed"),
        (&["preset:bright", "--print-preset", "-o", "e.yaml"], "cannot be used with"),
        (&["--list", "nowhere"], "nowhere: "),
    ] {
        let refused = sandbox.run(&[&["synth"], args].concat());
        assert!(refused.code != 0 && refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("\nhint: "), "{}", refused.stderr);
    }
}

/// The samples of a file of floats.
fn samples(sandbox: &Sandbox, name: &str) -> Vec<f32> {
    wav::decode(&std::fs::read(sandbox.path(name)).unwrap()).unwrap().to_clip().samples
}

/// Instruments and tracks, on our own instruments and on a SoundFont: the stems add up to the mix.
#[test]
fn stems_of_instruments_and_tracks_add_up() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("tiny.sf2"), melisma::synth::synthetic_soundfont::bytes()).unwrap();
    let score = compose(&Style::named("bright").unwrap(), 5, 4.0).unwrap();
    std::fs::write(sandbox.path("a.mid"), score.to_midi().unwrap()).unwrap();
    // Too quiet for the limiter.
    let common = ["--rate", "16000", "--sample-format", "f32", "--loudness", "-50", "--threads", "1"];
    for (font, mix) in [(&[][..], "own.wav"), (&["--soundfont", "tiny.sf2"], "font.wav")] {
        json(&sandbox, &[&["synth", "a.mid", "-o", mix][..], &common, font].concat());
        let whole = samples(&sandbox, mix);
        assert!(whole.iter().any(|sample| sample.abs() > 1e-3));
        for by in ["instrument", "track"] {
            let folder = format!("{by} {mix}");
            let stems = ["--stems", &folder, "--stems-by", by, "-f"];
            let result = json(&sandbox, &[&["synth", "a.mid", "-o", mix][..], &common, font, &stems].concat());
            assert!(samples(&sandbox, mix) == whole, "stems change the mix");
            let stems: Vec<&str> =
                result["stems"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
            let first = if by == "track" { "02-" } else { "pad.wav" };
            assert!(stems.len() > 2 && stems[0].starts_with(&format!("{folder}/{first}")), "{stems:?}");
            let sounds: Vec<Vec<f32>> = stems.iter().map(|stem| samples(&sandbox, stem)).collect();
            for (i, mix) in whole.iter().enumerate() {
                let sum: f32 = sounds.iter().map(|sound| sound[i]).sum();
                assert!((sum - mix).abs() < 1e-5, "{folder}, sample {i}: {sum} is not {mix}");
            }
        }
    }
    // Without tracks, each instrument is one.
    let piece = ["synth", "preset:bright", "-o", "p.wav", "--seconds", "2", "--stems", "p", "--stems-by", "track"];
    let result = json(&sandbox, &[&piece[..], &common].concat());
    assert_eq!(result["stems"][0], "p/pad.wav");
    let alone = sandbox.run(&["synth", "preset:bright", "-o", "c.wav", "--stems-by", "track"]);
    assert!(alone.code == 2 && alone.stderr.contains("--stems"), "{}", alone.stderr);
}

/// Clips that a SoundFont plays, in two runs; another SoundFont is another set.
#[test]
fn clips_with_a_soundfont() {
    let sandbox = Sandbox::new();
    let font = melisma::synth::synthetic_soundfont::bytes();
    std::fs::write(sandbox.path("tiny.sf2"), &font).unwrap();
    let clips = ["synth", "preset:bright", "--seconds", "1", "--rate", "16000", "--clips", "2"];
    let run = |folder: &str, more: &[&str]| sandbox.run(&[&clips[..], &["-o", folder], more].concat());
    for (folder, more) in
        [("own", &[][..]), ("font", &["--soundfont", "tiny.sf2"]), ("font", &["--soundfont", "tiny.sf2"])]
    {
        let ran = run(folder, more);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("own/clip_000001.wav") != read("font/clip_000001.wav"));
    let label: serde_json::Value = serde_json::from_slice(&read("font/clip_000001.json")).unwrap();
    assert_eq!(label["soundfont_blake3"].as_str().unwrap().len(), 64);
    assert!(!String::from_utf8(read("own/clip_000001.json")).unwrap().contains("soundfont"));
    // A name of the font, which no sound depends on.
    let at = font.windows(9).position(|name| name == b"synthetic").unwrap();
    let renamed = [&font[..at], b"Synthetic", &font[at + 9..]].concat();
    std::fs::write(sandbox.path("renamed.sf2"), renamed).unwrap();
    for more in [&["--soundfont", "renamed.sf2"][..], &[]] {
        let other = run("font", more);
        assert!(other.code != 0 && other.stderr.contains("another `soundfont_blake3`"), "{}", other.stderr);
    }
    let cuda = run("gpu", &["--soundfont", "tiny.sf2", "--device", "cuda"]);
    assert!(cuda.code != 0 && cuda.stderr.contains("a SoundFont is played on the CPU"), "{}", cuda.stderr);
}

/// A MIDI file and a preset with a SoundFont, whatever the threads; what is damaged is refused.
#[test]
fn a_soundfont_plays_general_midi() {
    let sandbox = Sandbox::new();
    let font = melisma::synth::synthetic_soundfont::bytes();
    std::fs::write(sandbox.path("tiny.sf2"), &font).unwrap();
    let score = compose(&Style::named("bright").unwrap(), 5, 4.0).unwrap();
    std::fs::write(sandbox.path("a.mid"), score.to_midi().unwrap()).unwrap();
    let common = ["--rate", "16000", "--soundfont", "tiny.sf2"];
    let result = json(&sandbox, &[&["synth", "a.mid", "-o", "a.wav", "--threads", "1"][..], &common].concat());
    assert_eq!((&result["notes"], &result["device"]), (&score.notes.len().into(), &"cpu".into()));
    assert!((result["loudness_lufs"].as_f64().unwrap() + 18.0).abs() < 0.2, "{result}");
    json(&sandbox, &[&["synth", "a.mid", "-o", "b.wav", "--threads", "3"][..], &common].concat());
    json(&sandbox, &["synth", "a.mid", "-o", "own.wav", "--rate", "16000"]);
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("a.wav") == read("b.wav") && read("a.wav") != read("own.wav"));
    json(&sandbox, &[&["synth", "preset:bright", "-o", "p.wav", "--seconds", "2"][..], &common].concat());
    std::fs::write(sandbox.path("cut.sf2"), &font[..font.len() / 2]).unwrap();
    std::fs::write(sandbox.path("not.sf2"), b"MThd").unwrap();
    for (args, message) in [
        (&["--soundfont", "cut.sf2"][..], "cut.sf2: SoundFont: byte "),
        (&["--soundfont", "not.sf2"], "not.sf2: this is not a SoundFont"),
        (&["--soundfont", "none.sf2"], "none.sf2: "),
        (&["--soundfont", "."], "this is a folder"),
        (&["--soundfont", "tiny.sf2", "--rate", "8000"], "16000 to 192000 Hz, not at 8000"),
        (&["--soundfont", "tiny.sf2", "--endless"], "--endless"),
        (&["--soundfont", "tiny.sf2", "--device", "cuda"], "a SoundFont is played on the CPU"),
    ] {
        let refused = sandbox.run(&[&["synth", "a.mid", "-o", "c.wav"], args].concat());
        assert!(refused.code != 0 && refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("\nhint: ") && !sandbox.path("c.wav").exists(), "{}", refused.stderr);
    }
}
