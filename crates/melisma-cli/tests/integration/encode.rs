//! `encode` of one file or pipe: formats, rates, channels, live pipes, and the check by decoding.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use melisma::audio::{Clip, Stream, Target, wav};
use melisma::snac::tokens::to_orpheus;
use melisma::snac::{Model, reference};
use serde_json::json;

use crate::sandbox::{self, Ran, Sandbox, golden_file};
use crate::sound::{noise, wav as file};

fn tiny() -> String {
    golden_file("snac/tiny24")
}

fn tone(name: &str) -> String {
    golden_file("mel").to_owned() + "/" + name
}

fn encode(sandbox: &Sandbox, more: &[&str]) -> Ran {
    let ran = sandbox.run(&[&["encode"], more, &["--model", &tiny(), "--device", "cpu", "-f"]].concat());
    assert_eq!(ran.code, 0, "{more:?}: {}", ran.stderr);
    ran
}

/// The output of `encode - -o -` with `bytes` on stdin.
fn piped(sandbox: &Sandbox, bytes: &[u8], more: &[&str]) -> Ran {
    let tiny = tiny();
    let args = [&["encode", "-", "-o", "-", "--model", &tiny, "--device", "cpu"], more].concat();
    let mut child = sandbox.start(&args);
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let ran = Ran::from(child.wait_with_output().unwrap());
    // A command that fails early does not read everything.
    let _ = writer.join().unwrap();
    ran
}

fn read(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).unwrap()
}

#[test]
fn opus_and_webm_give_the_tokens_of_their_samples() {
    let sandbox = Sandbox::new();
    let model = Model::open(tiny()).unwrap();
    for name in ["celt_20ms.opus", "hybrid_20ms.webm", "celt_20ms_live.webm"] {
        let path = golden_file("audio").to_owned() + "/" + name;
        let mut stream = Stream::open(&path, Target::new(24_000)).unwrap();
        let mut samples = Vec::new();
        while let block @ [_, ..] = stream.read().unwrap() {
            samples.extend_from_slice(block);
        }
        assert_eq!(samples.len(), 7200, "{name}");
        let expected = to_orpheus(&model, &reference::encode(&model, &samples).unwrap()).unwrap();
        encode(&sandbox, &[&path, "-o", "out.txt"]);
        assert!(read(&sandbox, "out.txt") == expected, "{name}");
        let ran = piped(&sandbox, &std::fs::read(&path).unwrap(), &["--chunk", "2"]);
        assert!(ran.stdout == expected, "{name} from a pipe: {}", ran.stderr);
    }
}

#[test]
fn every_format_and_pace_gives_the_tokens_of_its_samples() {
    let sandbox = Sandbox::new();
    let model = Model::open(tiny()).unwrap();
    for name in ["tone.flac", "tone.ogg", "tone_lame.mp3", "tone_rf64.wav", "tone.m4a", "tone_mulaw.wav"] {
        let mut stream = Stream::open(tone(name), Target::new(24_000)).unwrap();
        let mut samples = Vec::new();
        while let block @ [_, ..] = stream.read().unwrap() {
            samples.extend_from_slice(block);
        }
        let expected = to_orpheus(&model, &reference::encode(&model, &samples).unwrap()).unwrap();
        let ran = encode(&sandbox, &[&tone(name), "-o", "out.txt", "--json"]);
        assert!(read(&sandbox, "out.txt") == expected, "{name}");
        let object = ran.json();
        assert_eq!(object["notes"], json!(stream.notes()), "{name}");
        assert!(ran.stderr.contains("note: resampled from 16000 Hz to 24000 Hz\n"), "{name}: {}", ran.stderr);
        assert_eq!(object["samples"], samples.len());
        if name == "tone.m4a" {
            continue;
        }
        let ran = piped(&sandbox, &std::fs::read(tone(name)).unwrap(), &["--chunk", "2"]);
        assert!(ran.stdout == expected, "{name} from a pipe: {}", ran.stderr);
    }
}

#[test]
fn every_chunk_gives_the_same_tokens() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("in.wav"), file(44_100, &noise(3, 50_000))).unwrap();
    encode(&sandbox, &["in.wav", "-o", "whole.txt"]);
    for chunk in ["1", "3", "65536"] {
        encode(&sandbox, &["in.wav", "-o", "chunk.txt", "--chunk", chunk, "--threads", "3"]);
        assert!(read(&sandbox, "chunk.txt") == read(&sandbox, "whole.txt"), "--chunk {chunk}");
    }
}

/// Lines of a child, each within a minute.
fn lines(child: &mut Child) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

/// What ffmpeg and sox write into pipes, for a stream of unknown length.
fn live_header(size: u32) -> Vec<u8> {
    let mut header = file(24_000, &[]);
    header[4..8].copy_from_slice(&size.to_le_bytes());
    header[40..44].copy_from_slice(&size.to_le_bytes());
    header
}

#[test]
fn tokens_of_a_live_pipe_leave_before_it_ends() {
    let sandbox = Sandbox::new();
    let (tiny, samples) = (tiny(), noise(5, 12 * 2048 + 100));
    let bytes = file(24_000, &samples);
    std::fs::write(sandbox.path("in.wav"), &bytes).unwrap();
    encode(&sandbox, &["in.wav", "-o", "whole.txt"]);
    let whole = read(&sandbox, "whole.txt");
    for (size, more) in [(u32::MAX, &[][..]), (0x7fff_f000, &["--chunk", "1"])] {
        let args = [&["encode", "-", "-o", "-", "--model", &tiny, "--device", "cpu"], more].concat();
        let mut child =
            sandbox.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stdin, heard) = (child.stdin.take().unwrap(), lines(&mut child));
        stdin.write_all(&live_header(size)).unwrap();
        stdin.write_all(&bytes[44..44 + 2 * 2048 * 8]).unwrap();
        stdin.flush().unwrap();
        // The stamp and the first frames come while the pipe is open.
        let mut found: Vec<String> =
            (0..5).map(|_| heard.recv_timeout(Duration::from_secs(60)).expect("a frame in time")).collect();
        stdin.write_all(&bytes[44 + 2 * 2048 * 8..]).unwrap();
        drop(stdin);
        found.extend(heard.iter());
        assert_eq!(found, whole.lines().collect::<Vec<_>>());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0);
        assert!(
            ran.stderr.starts_with("note: the data size is not in the header; read to the end\n"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("13 frames, 91 tokens of 1.0") && ran.stderr.contains("x realtime)"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn channels_are_chosen() {
    let sandbox = Sandbox::new();
    let (left, right) = (noise(1, 5000), noise(2, 5000));
    let samples = left.iter().zip(&right).flat_map(|(&a, &b)| [a, b]).collect();
    let stereo = Clip { sample_rate: 24_000, n_channels: 2, samples };
    std::fs::write(sandbox.path("stereo.wav"), wav::encode(&stereo, wav::SampleFormat::S16).unwrap()).unwrap();
    for (name, samples) in [("left", &left), ("right", &right)] {
        std::fs::write(sandbox.path("mono.wav"), file(24_000, samples)).unwrap();
        encode(&sandbox, &["mono.wav", "-o", "mono.txt"]);
        let ran = encode(&sandbox, &["stereo.wav", "-o", "one.txt", "--channel", name]);
        assert!(read(&sandbox, "one.txt") == read(&sandbox, "mono.txt"), "{name}");
        let number = if name == "left" { "1" } else { "2" };
        assert_eq!(ran.stderr, format!("note: only channel {number} of 2 was read\n"));
        encode(&sandbox, &["stereo.wav", "-o", "number.txt", "--channel", number]);
        assert!(read(&sandbox, "number.txt") == read(&sandbox, "mono.txt"), "{number}");
    }
    encode(&sandbox, &["stereo.wav", "-o", "default.txt"]);
    encode(&sandbox, &["stereo.wav", "-o", "mix.txt", "--channel", "mix"]);
    assert!(read(&sandbox, "default.txt") == read(&sandbox, "mix.txt"));
}

#[test]
fn tokens_of_the_built_in_codec_for_language_models_are_warned_of() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    std::fs::write(sandbox.path("w/a.wav"), file(24_000, &noise(1, 3000))).unwrap();
    let said = |line: &str| {
        let args: Vec<&str> = line.split(' ').chain(["-f", "--device", "cpu"]).collect();
        let ran = sandbox.run(&[&["encode"], &args[..]].concat());
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
        ran.stderr.lines().filter(|line| line.starts_with("warning: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    for line in [
        "w/a.wav -o a.txt",
        "w/a.wav -o a.txt --format ids --model builtin:mini24",
        "w/a.wav -o -",
        "w -o a.h5",
        "w -o a.jsonl --format orpheus",
    ] {
        let warned = said(line);
        assert!(warned.len() == 1 && warned[0].contains(" of builtin:mini24; a language model"), "{line}: {warned:?}");
        assert!(warned[0].ends_with("name it with --model"), "{warned:?}");
        assert_eq!(said(&format!("{line} -q")), [""; 0], "{line}");
    }
    for line in ["w/a.wav -o a.json", "w/a.wav -o a.safetensors", "w/a.wav -o a.npy"] {
        assert_eq!(said(line), [""; 0], "{line}");
    }
    for line in ["w/a.wav -o a.txt", "w -o b.h5"] {
        assert_eq!(said(&format!("{line} --model {}", tiny())), [""; 0], "{line}");
    }
}

#[test]
fn short_clips_are_padded_to_a_frame() {
    let sandbox = Sandbox::new();
    for (n, frames) in [(0, 0), (1, 1), (2047, 1), (2048, 1), (2049, 2)] {
        std::fs::write(sandbox.path("in.wav"), file(24_000, &noise(1, n))).unwrap();
        let ran = encode(&sandbox, &["in.wav", "-o", "out.npy", "--json"]);
        let object = ran.json();
        assert_eq!((&object["frames"], &object["samples"]), (&frames.into(), &n.into()));
        assert_eq!(object["real_time_factor"].is_null(), n == 0);
    }
}

#[test]
fn the_round_trip_is_measured() {
    let sandbox = Sandbox::new();
    let sample = golden_file("../crates/melisma-models/mini24/sample.wav");
    let mut clip = wav::decode(&std::fs::read(sample).unwrap()).unwrap().to_clip();
    clip.samples.truncate(24_000);
    std::fs::write(sandbox.path("in.wav"), wav::encode(&clip, wav::SampleFormat::S16).unwrap()).unwrap();
    let args = ["encode", "in.wav", "-o", "out.txt", "--verify-audio", "--device", "cpu", "-f"];
    let ran = sandbox.run(&[&args[..], &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let object = ran.json();
    let snr_db = object["fidelity"]["snr_db"].as_f64().unwrap();
    let distance = object["fidelity"]["log_mel_distance"].as_f64().unwrap();
    // Audio that has nothing to do with the original is at -3 dB or below.
    assert!(snr_db > -2.0 && snr_db < 40.0 && distance > 0.01 && distance < 1.0, "{snr_db} dB, {distance}");
    let tokens = read(&sandbox, "out.txt");
    // The library measures the same from the decoded file.
    let decode = ["decode", "out.txt", "-o", "out.wav", "--noise", "off", "--sample-format", "f32", "--device", "cpu"];
    assert_eq!(sandbox.run(&decode).code, 0);
    let decoded = wav::decode(&std::fs::read(sandbox.path("out.wav")).unwrap()).unwrap().to_clip();
    let power = |samples: &mut dyn Iterator<Item = f64>| samples.map(|x| x * x).sum::<f64>();
    let pairs = || clip.samples.iter().zip(&decoded.samples).map(|(&x, &y)| (f64::from(x), f64::from(y)));
    let expected = 10.0 * (power(&mut pairs().map(|(x, _)| x)) / power(&mut pairs().map(|(x, y)| x - y))).log10();
    assert!((snr_db - expected).abs() < 1e-6, "{snr_db}, not {expected}");

    let text = sandbox.run(&[&args[..], &["--min-snr", "-3.5"]].concat());
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(
        text.stdout.contains(&format!("\nround trip: {snr_db:.2} dB signal-to-noise, log-mel ")),
        "{}",
        text.stdout
    );
    let missed = sandbox.run(&[&args[..], &["--min-snr", "60", "--json", "-q"]].concat());
    assert_eq!(missed.code, 3);
    let expected = format!(
        "error: in.wav: {snr_db:.2} dB signal-to-noise after decoding, --min-snr is 60\nhint: the tokens are in out.txt\n"
    );
    assert_eq!(missed.stderr, expected);
    let object = missed.json();
    assert_eq!((&object["error"]["exit_code"], &object["fidelity"]["min_snr_db"]), (&3.into(), &60.0.into()));
    assert!(read(&sandbox, "out.txt") == tokens, "the tokens are kept");
}

#[test]
fn an_interrupt_keeps_finished_frames() {
    let sandbox = Sandbox::new();
    let bytes = file(24_000, &noise(5, 10 * 2048));
    std::fs::write(sandbox.path("in.wav"), &bytes).unwrap();
    encode(&sandbox, &["in.wav", "-o", "whole.txt"]);
    let whole = read(&sandbox, "whole.txt");
    let mut child = sandbox.start(&["encode", "-", "-o", "out.txt", "--model", &tiny(), "--device", "cpu"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&live_header(u32::MAX)).unwrap();
    stdin.write_all(&bytes[44..]).unwrap();
    let partial = sandbox.path("out.txt.partial");
    sandbox::wait_until(&mut child, || std::fs::read_to_string(&partial).is_ok_and(|text| text.lines().count() >= 5));
    sandbox::send(&child, "-INT");
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(sandbox.files(), ["in.wav", "out.partial.txt", "whole.txt"]);
    let kept = read(&sandbox, "out.partial.txt");
    assert!(whole.starts_with(&kept) && kept.lines().count() >= 5, "{kept}");
    assert!(ran.stderr.contains(" frames are in out.partial.txt"), "{}", ran.stderr);
}
