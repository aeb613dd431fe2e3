//! `decode` and `encode`: files, pipes, and what they print.

use std::io::{Cursor, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use melisma::audio::flac::Depth;
use melisma::audio::wav::{self, SampleFormat};
use melisma::audio::{Format, Layout, Writer};
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::snac::reference::seam::Seam;
use melisma::snac::{Codes, Engine, EngineOptions, Model, Noise};
use serde_json::Value;

use crate::sandbox::{self, Ran, Sandbox, golden};

const HEADER_LEN: usize = 44;

fn shipped(name: &str) -> String {
    repository().join("crates/melisma-models/mini24").join(name).to_str().unwrap().to_owned()
}

fn tiny(name: &str) -> String {
    repository().join("golden/snac").join(name).to_str().unwrap().to_owned()
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn done(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let ran = sandbox.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    ran
}

/// Tokens of `n` frames, one frame a line.
fn lines(n: usize) -> Vec<String> {
    let token = |frame: usize, slot: usize| 10 + 4096 * slot + (frame * 7 + slot).wrapping_mul(2_654_435_761) % 4096;
    let line = |frame| (0..7).map(|slot| format!("<custom_token_{}>", token(frame, slot))).collect::<String>() + "\n";
    (0..n).map(line).collect()
}

fn samples(bytes: &[u8]) -> Vec<f32> {
    wav::decode(bytes).unwrap().to_clip().samples
}

#[test]
fn a_suffix_chooses_the_format() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.txt"), lines(30).concat()).unwrap();
    let model = tiny("tiny24");
    done(&sandbox, &["decode", "t.txt", "-o", "x.wav", "--sample-format", "f32", "--model", &model]);
    let clip = wav::decode(&std::fs::read(sandbox.path("x.wav")).unwrap()).unwrap().to_clip();
    for (name, format) in [
        ("x.flac", Format::Flac(Depth::S16)),
        ("x.mp3", Format::Mp3),
        ("x.OPUS", Format::Opus),
        ("none", Format::Wav(SampleFormat::S16)),
    ] {
        done(&sandbox, &["decode", "t.txt", "-o", name, "--model", &model]);
        let layout = Layout::new(clip.sample_rate, 1);
        let mut writer = Writer::new(Cursor::new(Vec::new()), format, layout).unwrap();
        writer.write(&clip.samples).unwrap();
        assert!(std::fs::read(sandbox.path(name)).unwrap() == writer.seal().unwrap().into_inner(), "{name}");
    }
    for (name, hint) in [("x.aac", ".wav, .flac, .mp3 or .opus"), ("x.mp3", "s16")] {
        let ran = sandbox.line(&format!("decode t.txt -o {name} -f --sample-format s24 --model {model}"));
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
}

#[test]
fn verbose_tells_the_stages_of_every_chunk() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.txt"), lines(20).concat()).unwrap();
    let args = ["decode", "t.txt", "-o", "x.wav", "-f", "--chunk", "7", "--model", &tiny("tiny24")];
    assert!(!done(&sandbox, &args).stderr.contains("chunk "));
    let stderr = done(&sandbox, &[&args[..], &["-v"]].concat()).stderr;
    let chunks: Vec<&str> = stderr.lines().filter(|line| line.starts_with("chunk ")).collect();
    assert_eq!(chunks.len(), 3, "{stderr}");
    for (n, (line, frames)) in chunks.iter().zip([7, 7, 6]).enumerate() {
        assert!(line.starts_with(&format!("chunk {}: {frames} frames, validation ", n + 1)), "{line}");
        assert!(line.contains(" ms, decode ") && line.contains(" ms, write "), "{line}");
    }
    let flush = stderr.lines().find(|line| line.starts_with("flush: decode ")).expect("the last samples");
    let sound = |line: &str| line.strip_suffix(" ms of sound")?.rsplit(' ').next()?.parse::<f64>().ok();
    let total: f64 = chunks.iter().copied().chain([flush]).filter_map(sound).sum();
    assert!((total - 20.0 * 2048.0 / 24.0).abs() < 3.0, "{stderr}");
}

#[test]
fn the_sample_goes_to_tokens_and_back() {
    let sandbox = Sandbox::new();
    let encoded = sandbox.json(&["encode", &shipped("sample.wav"), "-o", "tokens.txt", "--json"]);
    assert_eq!((&encoded["frames"], &encoded["tokens"]), (&66.into(), &462.into()));
    assert_eq!(encoded["audio_seconds"], 5.632);
    assert!(encoded["wall_seconds"].is_f64() && encoded["device"] == "cpu");
    let text = std::fs::read_to_string(sandbox.path("tokens.txt")).unwrap();
    let stamp = format!("<melisma_model_{}>\n", encoded["model"]["hash"].as_str().unwrap());
    let expected = std::fs::read_to_string(shipped("sample_tokens.txt")).unwrap();
    let tokens =
        |text: &str| text.replace(['\n', '\r'], "").split_inclusive('>').map(str::to_owned).collect::<Vec<_>>();
    let (found, expected) = (tokens(text.strip_prefix(&stamp).unwrap()), tokens(&expected));
    let n_equal = found.iter().zip(&expected).filter(|(a, b)| a == b).count();
    assert!(found.len() == 462 && n_equal >= 457, "{n_equal} of 462 tokens are those of the model's card");

    let ran = done(&sandbox, &["decode", &shipped("sample_tokens.txt"), "-o", "out.wav", "--noise", "off", "--json"]);
    assert!(ran.stderr.starts_with("warning: these tokens do not say which model"), "{}", ran.stderr);
    let decoded = ran.json();
    let expected_tokens = serde_json::json!({
        "accepted": 462, "rejected": 0, "resyncs": 0, "concealed_frames": 0, "dropped_frames": 0
    });
    assert_eq!(decoded["tokens"], expected_tokens);
    for (key, expected) in [("frames", 66), ("samples", 135_168), ("sample_rate_hz", 24_000)] {
        assert_eq!(decoded[key], expected, "{key}");
    }
    let keys = |value: &Value| value.as_object().unwrap().keys().map(|key| format!("  {key}\n")).collect::<String>();
    golden("codec_json.txt", &format!("decode\n{}encode\n{}", keys(&decoded), keys(&encoded)));
    assert_eq!((&decoded["audio_seconds"], &decoded["device"]), (&5.632.into(), &"cpu".into()));
    let (wall, factor) = (decoded["wall_seconds"].as_f64().unwrap(), decoded["real_time_factor"].as_f64().unwrap());
    assert!((factor - wall / 5.632).abs() < 1e-9);
    assert_eq!(decoded["notes"].as_array().unwrap().len(), 1);
    let found = samples(&std::fs::read(sandbox.path("out.wav")).unwrap());
    let seam = Seam::measure(&found, &samples(&std::fs::read(shipped("sample_decoded.wav")).unwrap()));
    assert!(seam.n_samples == 135_168 && seam.max_abs < 1e-4, "{seam:?}");
}

#[test]
fn every_chunk_and_every_format_gives_the_same_bytes() {
    let sandbox = Sandbox::new();
    let decode = |tokens: &str, name: &str, more: &[&str]| {
        let ran = done(&sandbox, &[&["decode", tokens, "-o", name][..], more].concat());
        let warned = if tokens.ends_with(".npy") { "warning: these tokens do not say which model" } else { "" };
        assert!(ran.stderr.starts_with(warned) && ran.stderr.is_empty() == warned.is_empty(), "{name}: {}", ran.stderr);
        std::fs::read(sandbox.path(name)).unwrap()
    };
    let sample = shipped("sample.wav");
    done(&sandbox, &["encode", &sample, "-o", "t.txt"]);
    let whole = decode("t.txt", "whole.wav", &[]);
    assert_eq!(whole.len(), HEADER_LEN + 2 * 135_168);
    for chunk in ["1", "3", "1000"] {
        assert!(decode("t.txt", &format!("{chunk}.wav"), &["--chunk", chunk]) == whole, "--chunk {chunk}");
    }
    for name in ["t.json", "t.npy", "t.safetensors"] {
        assert_eq!(sandbox.json(&["encode", &sample, "-o", name, "--json"])["format"], "codes");
        assert!(decode(name, &format!("{name}.wav"), &[]) == whole, "{name}");
    }
    done(&sandbox, &["encode", &sample, "-o", "ids.txt", "--format", "ids"]);
    let ids = done(&sandbox, &["decode", "ids.txt", "-o", "ids.wav"]);
    assert!(ids.stderr.starts_with("warning: "), "ids carry no stamp: {}", ids.stderr);
    assert!(std::fs::read(sandbox.path("ids.wav")).unwrap() == whole);

    let stamped: Value = serde_json::from_slice(&std::fs::read(sandbox.path("t.json")).unwrap()).unwrap();
    let model = Model::mini24().unwrap();
    assert_eq!(stamped["model"], model.hash());
    let codes = Codes::new(model.config(), serde_json::from_value(stamped["codes"].clone()).unwrap()).unwrap();
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    let mut engine = Engine::new(&model, &queue, &budget, EngineOptions::new(1)).unwrap();
    let expected = engine.decode(&codes, &Noise::Seed(7)).unwrap();
    let floats = samples(&decode("t.txt", "f32.wav", &["--sample-format", "f32", "--noise", "seed:7"]));
    assert_eq!(Seam::measure(&floats, &expected).n_different, 0);
    let wide = samples(&decode("t.txt", "s24.wav", &["--sample-format", "s24", "--noise", "seed:7"]));
    assert!(Seam::measure(&wide, &expected).max_abs <= 0.5 / 8_388_608.0);
}

/// A `decode -` that is fed and listened to.
struct Live {
    child: Child,
    heard: mpsc::Receiver<Vec<u8>>,
}

impl Live {
    fn start(sandbox: &Sandbox, more: &[&str]) -> Self {
        let args = [&["decode", "-", "-o", "-"][..], more].concat();
        let mut command = sandbox.command(&args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, heard) = mpsc::channel();
        let mut stdout: ChildStdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 1 << 14];
            while let Ok(n @ 1..) = stdout.read(&mut bytes) {
                let _ = sender.send(bytes[..n].to_vec());
            }
        });
        Self { child, heard }
    }

    fn say(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }

    /// Waits for `n` bytes, at most a minute.
    fn hear(&self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < n {
            bytes.extend(self.heard.recv_timeout(Duration::from_secs(60)).unwrap());
        }
        assert_eq!(bytes.len(), n);
        bytes
    }

    fn end(mut self) -> (Vec<u8>, String) {
        drop(self.child.stdin.take());
        let rest = self.heard.iter().flatten().collect();
        let output = self.child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        (rest, stderr)
    }
}

#[test]
fn a_live_pipe_is_heard_before_it_ends() {
    let sandbox = Sandbox::new();
    let lines = lines(6);
    let model = tiny("tiny24");
    let args = ["decode", "tokens.txt", "-o", "whole.wav", "--model", &model];
    std::fs::write(sandbox.path("tokens.txt"), lines.concat()).unwrap();
    done(&sandbox, &args);
    let whole = std::fs::read(sandbox.path("whole.wav")).unwrap();

    let mut live = Live::start(&sandbox, &["--model", &model]);
    let mut heard = Vec::new();
    for (n, line) in (1..).zip(&lines) {
        live.say(line);
        // The lag of the 24 kHz decoder is 4757 samples.
        let n_final = (2048_usize * n).saturating_sub(4757);
        let expected = if n_final == 0 { 0 } else { HEADER_LEN + 2 * n_final };
        heard.extend(live.hear(expected - heard.len()));
    }
    let (rest, stderr) = live.end();
    heard.extend(rest);
    assert!(heard[HEADER_LEN..] == whole[HEADER_LEN..]);
    assert_eq!(&heard[4..8], [0xFF; 4], "a pipe's header knows no length");
    assert!(stderr.starts_with("6 frames, 512.0ms of audio at 24000 Hz in "), "{stderr}");
}

#[test]
fn a_chunk_is_heard_when_it_is_whole() {
    let sandbox = Sandbox::new();
    let model = tiny("tiny24");
    let mut live = Live::start(&sandbox, &["--chunk", "3", "--model", &model]);
    live.say(&lines(6).concat());
    live.hear(HEADER_LEN + 2 * (6 * 2048 - 4757));
    live.end();
}

#[test]
fn an_early_start_is_heard_with_the_first_frame() {
    let sandbox = Sandbox::new();
    let lines = lines(5);
    let model = tiny("tiny24");
    let mut live = Live::start(&sandbox, &["--early", "--model", &model]);
    live.say(&lines[0]);
    let mut heard = live.hear(HEADER_LEN + 2 * 2048);
    live.say(&lines[1..].concat());
    heard.extend(live.end().0);
    std::fs::write(sandbox.path("tokens.txt"), lines.concat()).unwrap();
    let early = sandbox.json(&["decode", "tokens.txt", "-o", "early.wav", "--early", "--model", &model, "--json"]);
    assert_eq!(early["early"], serde_json::json!({ "samples": 2048, "gap_samples": 2048 }));
    done(&sandbox, &["decode", "tokens.txt", "-o", "exact.wav", "--model", &model]);
    let [early, exact] = ["early.wav", "exact.wav"].map(|name| std::fs::read(sandbox.path(name)).unwrap());
    assert!(heard[HEADER_LEN..] == early[HEADER_LEN..], "the same by file and by pipe");
    assert_eq!(early.len(), exact.len());
    let first = HEADER_LEN + 2 * 2048;
    assert!(early[first..] == exact[first..] && early[..first] != exact[..first]);
}

#[test]
fn stereo_is_mixed_down_and_said() {
    let sandbox = Sandbox::new();
    let tone = |i: usize| (i as f32 * 0.05).sin() * 0.3;
    let clip = melisma::audio::Clip { sample_rate: 24_000, n_channels: 2, samples: (0..9600).map(tone).collect() };
    std::fs::write(sandbox.path("stereo.wav"), wav::encode(&clip, SampleFormat::F32).unwrap()).unwrap();
    let ran = done(&sandbox, &["encode", "stereo.wav", "-o", "t.json", "--json", "--model", &tiny("tiny24")]);
    let encoded = ran.json();
    assert_eq!(encoded["notes"], serde_json::json!(["2 channels were mixed down to one"]));
    assert_eq!((&encoded["frames"], &encoded["audio_seconds"]), (&3.into(), &0.2.into()));
    assert_eq!(ran.stderr, "note: 2 channels were mixed down to one\n");
    let piped = done(&sandbox, &["encode", "stereo.wav", "-o", "-", "--model", &tiny("tiny24")]);
    assert!(piped.stdout.starts_with("<melisma_model_") && piped.stdout.lines().count() == 4, "{}", piped.stdout);
}

#[test]
fn no_sound_gives_no_sound() {
    let sandbox = Sandbox::new();
    let clip = melisma::audio::Clip::mono(24_000, Vec::new());
    std::fs::write(sandbox.path("empty.wav"), wav::encode(&clip, SampleFormat::S16).unwrap()).unwrap();
    for name in ["t.txt", "t.json", "t.npy", "t.safetensors"] {
        done(&sandbox, &["encode", "empty.wav", "-o", name]);
        let decoded = sandbox.json(&["decode", name, "-o", &format!("{name}.wav"), "--json"]);
        assert_eq!((&decoded["samples"], &decoded["real_time_factor"]), (&0.into(), &Value::Null), "{name}");
        assert_eq!(std::fs::read(sandbox.path(&format!("{name}.wav"))).unwrap().len(), HEADER_LEN);
    }
}

#[test]
fn a_listener_may_leave() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("tokens.txt"), lines(400).concat()).unwrap();
    std::fs::write(sandbox.path("few.txt"), lines(2).concat()).unwrap();
    let clip = melisma::audio::Clip::mono(24_000, vec![0.1; 4_096]);
    std::fs::write(sandbox.path("in.wav"), wav::encode(&clip, SampleFormat::S16).unwrap()).unwrap();
    let model = tiny("tiny24");
    for args in [
        &["decode", "tokens.txt", "-o", "-", "--model", &model][..],
        &["decode", "few.txt", "-o", "-", "--model", &model],
        &["encode", "in.wav", "-o", "-", "--model", &model],
        &["synth", "preset:sleep", "-o", "-", "--seconds", "1", "--rate", "8000", "--device", "cpu"],
        &["synth", "preset:sleep", "-o", "-", "--endless", "--seconds", "1", "--rate", "8000"],
        &["synth", "preset:sleep", "-o", "-", "--endless", "--seconds", "100", "--rate", "8000"],
    ] {
        let mut child = sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn an_interrupt_keeps_what_is_final() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("tokens.txt"), lines(20).concat()).unwrap();
    let decode = ["--model", &tiny("tiny24"), "--noise", "off"];
    done(&sandbox, &[&["decode", "tokens.txt", "-o", "whole.wav"][..], &decode].concat());
    std::fs::remove_file(sandbox.path("tokens.txt")).unwrap();
    let whole = samples(&std::fs::read(sandbox.path("whole.wav")).unwrap());
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut child = sandbox.start(&[&["decode", "-", "-o", "out.wav"][..], &decode].concat());
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines(20).concat().as_bytes()).unwrap();
        let partial = sandbox.path("out.wav.partial");
        // Samples reach the disk while the stream goes on.
        let has_samples = || std::fs::metadata(&partial).map_or(0, |data| data.len()) > HEADER_LEN as u64;
        sandbox::wait_until(&mut child, has_samples);
        sandbox::send(&child, signal);
        let ran = Ran::from(child.wait_with_output().unwrap());
        // The name says that it is not all; the header says how much it is.
        assert_eq!(sandbox.files(), ["out.partial.wav", "whole.wav"]);
        let bytes = std::fs::read(sandbox.path("out.partial.wav")).unwrap();
        let wav = wav::decode(&bytes).unwrap();
        assert_eq!(wav.note, None, "a complete header");
        let found = wav.to_clip().samples;
        assert!(!found.is_empty() && found.len() < whole.len() && found == whole[..found.len()]);
        let seconds = found.len() as f64 / 24_000.0;
        let said = format!("interrupted; the first {seconds:.2} s of audio are in out.partial.wav\n");
        assert_eq!((ran.code, ran.stderr), (code, said));
    }
}

/// The most memory that a stream of `n` frames has taken, in bytes.
#[cfg(target_os = "linux")]
fn peak_after(n: usize) -> u64 {
    let sandbox = Sandbox::new();
    let mut live = Live::start(&sandbox, &["--model", &tiny("tiny24"), "--noise", "off"]);
    for chunk in lines(n).chunks(500) {
        live.say(&chunk.concat());
    }
    let mut n_heard = 0;
    while n_heard < HEADER_LEN + 2 * (2048 * n - 4757) {
        n_heard += live.heard.recv_timeout(Duration::from_secs(60)).unwrap().len();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", live.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    live.end();
    1024 * peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_stream() {
    let (short, long) = (peak_after(600), peak_after(2400));
    assert!(long < short + (4 << 20), "{short} bytes for 600 frames, {long} for 2400");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "extended: an hour of sound"]
fn memory_does_not_grow_in_an_hour() {
    let (short, long) = (peak_after(600), peak_after(42_188));
    assert!(long < short + (4 << 20), "{short} bytes for 600 frames, {long} for 42188");
}
