//! `encode` with bad input: the message, the hint, the exit code, and that nothing is left behind.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use melisma::audio::{Clip, wav};

use crate::sandbox::{Ran, Sandbox, golden, golden_file};
use crate::sound::{noise, wav as file, wav_f32};

/// A WAV file whose header declares `rate`, which a writer would refuse.
fn at_rate(rate: u32) -> Vec<u8> {
    let mut bytes = file(24_000, &noise(1, 500));
    bytes[24..28].copy_from_slice(&rate.to_le_bytes());
    bytes
}

fn stocked() -> Sandbox {
    let sandbox = Sandbox::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(sandbox.path(name), bytes).unwrap();
    let golden = |name: &str| std::fs::read(golden_file("mel") + "/" + name).unwrap();
    let mut samples = noise(1, 3000);
    samples[2500] = f32::NAN;
    write("nan.wav", &wav_f32(24_000, &samples));
    samples[1200] = f32::NEG_INFINITY;
    write("inf.wav", &wav_f32(16_000, &samples));
    write("good.wav", &file(24_000, &noise(1, 2048)));
    write("cut.wav", &file(24_000, &noise(1, 100))[..100]);
    write("empty.wav", b"");
    write("short.wav", b"RIFF");
    write("prose.wav", b"It was a bright cold day in April, and the clocks were striking thirteen.\n");
    for rate in [0, 1, 999, 768_001, 3_072_001, u32::MAX] {
        write(&format!("{rate}hz.wav"), &at_rate(rate));
    }
    let flac = golden("tone.flac");
    write("cut.flac", &flac[..flac.len() / 2]);
    let ogg = golden("tone.ogg");
    write("cut.ogg", &ogg[..ogg.len() - 200]);
    let mut damaged = flac.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x10;
    write("damaged.flac", &damaged);
    write("taken.txt", b"mine");
    sandbox
}

fn refused(ran: &Ran, what: &str) {
    assert_eq!(ran.code, 2, "{what}: {}", ran.stderr);
    let first = ran.stderr.lines().find(|line| !line.starts_with("note: "));
    assert!(first.is_some_and(|line| line.starts_with("error: ")), "{what}: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("\u{1b}["), "{}", ran.stderr);
}

#[test]
fn bad_input_gives_an_error_and_code_2() {
    let sandbox = stocked();
    let tiny = golden_file("snac/tiny24");
    let before = sandbox.files();
    let mut transcript = String::new();
    for line in [
        "absent.wav -o out.txt",
        "empty.wav -o out.txt",
        "short.wav -o out.txt",
        "prose.wav -o out.txt",
        "nan.wav -o out.txt",
        "inf.wav -o out.txt",
        "cut.wav -o out.txt",
        "cut.flac -o out.txt",
        "cut.ogg -o out.txt",
        "damaged.flac -o out.txt",
        "0hz.wav -o out.txt",
        "1hz.wav -o out.txt",
        "999hz.wav -o out.txt",
        "768001hz.wav -o out.txt",
        "3072001hz.wav -o out.txt",
        "4294967295hz.wav -o out.txt",
        "good.wav -o out.txt --channel right",
        "good.wav -o out.txt --channel 0",
        "good.wav -o out.txt --channel both",
        "good.wav -o out.txt --chunk 0",
        "good.wav -o out.txt --min-snr 3",
        "good.wav -o out.txt --verify-audio --min-snr nan",
        "good.wav -o out.pdf",
        "good.wav -o out.json --format orpheus",
        "good.wav -o taken.txt --format ids",
        "good.wav -o good.wav --format ids",
        "good.wav -o - --json",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = sandbox.run(&[&["encode"], &args[..], &["--model", &tiny, "--device", "cpu"]].concat());
        refused(&ran, line);
        assert!(ran.stderr.contains("\nhint: "), "{line}: {}", ran.stderr);
        transcript += &format!("$ melisma encode {line}\n{}[{}]\n\n", ran.stderr, ran.code);
    }
    golden("encode_errors.txt", &transcript);
    assert_eq!(sandbox.files(), before);
    assert_eq!(std::fs::read_to_string(sandbox.path("taken.txt")).unwrap(), "mine");
}

/// Damage of a pipe is found while it is decoded, with the position that a file's check names.
#[test]
fn bad_pipes_are_refused() {
    let sandbox = stocked();
    let tiny = golden_file("snac/tiny24");
    for (name, expected) in [
        ("empty.wav", "error: stdin: the pipe is empty"),
        ("short.wav", "error: stdin: the WAV file ends in its header, after 4 bytes"),
        ("prose.wav", "error: stdin: "),
        ("nan.wav", "error: stdin: sample 2500 is NaN"),
        ("inf.wav", "error: stdin: sample 1200 is -inf"),
        ("cut.wav", "error: stdin: 200 bytes of samples are declared, 56 are there"),
        ("cut.flac", "error: stdin: "),
        ("cut.ogg", "error: stdin: the file ends too early"),
        ("damaged.flac", "error: stdin: the FLAC frame at sample "),
        ("999hz.wav", "error: stdin: a sample rate of 999 Hz; 1000 to 768000 are read"),
    ] {
        let mut child = sandbox.start(&["encode", "-", "-o", "out.txt", "--model", &tiny, "--device", "cpu"]);
        let mut stdin = child.stdin.take().unwrap();
        // A command that fails early does not read everything.
        let _ = stdin.write_all(&std::fs::read(sandbox.path(name)).unwrap());
        drop(stdin);
        let ran = Ran::from(child.wait_with_output().unwrap());
        refused(&ran, name);
        assert!(ran.stderr.contains(expected), "{name}: {}", ran.stderr);
        assert!(!sandbox.path("out.txt").exists() && !sandbox.path("out.txt.partial").exists(), "{name}");
    }
}

#[test]
fn odd_but_valid_input_is_encoded_and_noted() {
    let sandbox = Sandbox::new();
    let tiny = golden_file("snac/tiny24");
    let mut clipped = noise(1, 5000);
    clipped[700..900].fill(1.0);
    let surround = Clip { sample_rate: 48_000, n_channels: 8, samples: noise(2, 8 * 4000) };
    for (name, bytes, notes) in [
        (
            "clipped.wav",
            file(24_000, &clipped),
            "note: clipped: 200 samples at full scale in 1 run, the first at sample 700\n",
        ),
        (
            "surround.wav",
            wav::encode(&surround, wav::SampleFormat::S24).unwrap(),
            "note: 8 channels were mixed down to one\nnote: resampled from 48000 Hz to 24000 Hz\n",
        ),
        ("1khz.wav", file(1000, &noise(3, 300)), "note: resampled from 1000 Hz to 24000 Hz\n"),
        ("768khz.wav", file(768_000, &noise(4, 90_000)), "note: resampled from 768000 Hz to 24000 Hz\n"),
    ] {
        std::fs::write(sandbox.path(name), bytes).unwrap();
        let ran = sandbox.run(&["encode", name, "-o", "out.txt", "--model", &tiny, "--device", "cpu", "-f"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, notes), "{name}");
    }
    let name = OsStr::from_bytes(b"caf\xe9.wav");
    std::fs::write(sandbox.directory.path().join(name), file(24_000, &noise(1, 100))).unwrap();
    let mut command = sandbox.command(&["encode", "-o", "out.txt", "--model", &tiny, "--device", "cpu", "-f"]);
    let ran = Ran::from(command.arg(name).output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    std::fs::write(sandbox.directory.path().join(name), b"no audio, but long enough").unwrap();
    let mut command = sandbox.command(&["encode", "-o", "out.txt", "--model", &tiny, "--device", "cpu", "-f"]);
    let ran = Ran::from(command.arg(name).output().unwrap());
    refused(&ran, "not UTF-8");
    assert!(ran.stderr.contains("caf\u{fffd}.wav"), "{}", ran.stderr);
}
