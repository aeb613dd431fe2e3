//! `melisma synth`: presets, their changes and files, SoundFonts, music without an end.

use std::io::Read;

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
        (&["--list", "nowhere"], "nowhere: "),
    ] {
        let refused = sandbox.run(&[&["synth"], args].concat());
        assert!(refused.code != 0 && refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("\nhint: "), "{}", refused.stderr);
    }
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
        (&["--soundfont", "."], "this is a directory"),
        (&["--soundfont", "tiny.sf2", "--rate", "8000"], "16000 to 192000 Hz, not at 8000"),
        (&["--soundfont", "tiny.sf2", "--stems", "s"], "--stems"),
        (&["--soundfont", "tiny.sf2", "--device", "cuda"], "a SoundFont is played on the CPU"),
    ] {
        let refused = sandbox.run(&[&["synth", "a.mid", "-o", "c.wav"], args].concat());
        assert!(refused.code != 0 && refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("\nhint: ") && !sandbox.path("c.wav").exists(), "{}", refused.stderr);
    }
}
