//! What users get wrong: each mistake gives a message, a hint and an exit code, and changes no file.

use std::fs;

use crate::sandbox::{Sandbox, golden, golden_file};

/// The exit code and the command line of each mistake.
const MISTAKES: &str = include_str!("../mistakes.txt");

/// Makes the files that the mistakes name.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let write = |name: &str, bytes: &[u8]| fs::write(sandbox.path(name), bytes).unwrap();
    write("text.txt", b"hello\n");
    write("notes.wav", b"notes\n");
    write("zero.wav", b"");
    write("bad.json", b"{\"a\": 1}");
    write("junk.mid", &[7; 400]);
    fs::create_dir(sandbox.path("empty")).unwrap();
    fs::copy(golden_file("optimize/vocoder.onnx"), sandbox.path("vocoder.onnx")).unwrap();
    fs::copy(golden_file("optimize/vocoder.x.npy"), sandbox.path("x.npy")).unwrap();
    let make = |line: &str| assert_eq!(sandbox.line(line).code, 0, "{line}");
    make("-q synth preset:focus -o sound.wav --seconds 1 --rate 24000");
    make("-q encode sound.wav -o tokens.json");
    let sound = fs::read(sandbox.path("sound.wav")).unwrap();
    write("cut.wav", &sound[..1000]);
    let weights = concat!(env!("CARGO_MANIFEST_DIR"), "/../melisma-models/mini24/model.safetensors");
    fs::copy(weights, sandbox.path("w.safetensors")).unwrap();
    make("-q pack w.safetensors -o w.packed.safetensors");
    write("cut.safetensors", &fs::read(weights).unwrap()[..5000]);
    let mut packed = fs::read(sandbox.path("w.packed.safetensors")).unwrap();
    packed[200_000] ^= 1;
    write("bad.packed.safetensors", &packed);
    sandbox
}

#[test]
fn a_mistake_is_told_with_its_place_and_a_way_out() {
    let sandbox = prepared();
    let before = sandbox.files();
    let mut transcript = String::new();
    let lines: Vec<&str> = MISTAKES.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() >= 60, "{}", lines.len());
    for line in lines {
        let (code, line) = line.split_once(' ').unwrap();
        let ran = sandbox.line(line);
        assert_eq!((ran.code.to_string(), &*ran.stdout), (code.to_owned(), ""), "{line}: {}", ran.stderr);
        let said: Vec<&str> = ran.stderr.lines().collect();
        assert!(
            matches!(said[..], [error, hint] if error.starts_with("error: ") && hint.starts_with("hint: ")),
            "{line}: {said:?}"
        );
        transcript += &format!("$ melisma {line}\n{}[{code}]\n\n", ran.stderr);
    }
    golden("mistakes.txt", &transcript);
    let after: Vec<String> = sandbox.files().into_iter().filter(|name| name != ".cache").collect();
    assert_eq!(after, before);
}
