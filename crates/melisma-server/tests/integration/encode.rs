//! `/v1/encode`.

use std::io::Write;
use std::sync::LazyLock;

use melisma::Device;
use melisma::audio::{Clip, Source, Target, flac, wav};
use melisma::random::Lcg32;
use melisma::runtime::memory::Budget;
use melisma::snac::tokens::{to_ids, to_json, to_orpheus};
use melisma::snac::{Codes, EncodeEngine, EngineOptions};
use melisma_server::encoder::max_clips;

use crate::client::{Fixture, MODEL, golden, read_head, until};

static SERVER: LazyLock<Fixture> = LazyLock::new(|| Fixture::plain(1));

fn clip(n_samples: usize) -> Clip {
    let mut random = Lcg32::new(5 + n_samples as u32);
    Clip::mono(24_000, (0..n_samples).map(|_| (0.3 * random.signed() * 32_768.0).round() / 32_768.0).collect())
}

/// The codes that the engine alone makes.
fn codes(clip: &Clip) -> Codes {
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    EncodeEngine::new(&MODEL, &queue, &budget, EngineOptions::new(1)).unwrap().encode(&clip.samples).unwrap()
}

#[test]
fn every_format_has_the_codes_of_a_whole_encode() {
    let post = |query: &str, audio: &[u8]| {
        let answer = SERVER.request("POST", &format!("/v1/encode{query}"), &[], audio);
        assert_eq!((answer.status, answer.is_whole), (200, true), "{query}");
        String::from_utf8(answer.body).unwrap()
    };
    for n_samples in [0, 30_000] {
        let clip = clip(n_samples);
        let codes = codes(&clip);
        let audio = wav::encode(&clip, wav::SampleFormat::S16).unwrap();
        assert_eq!(post("", &audio), to_orpheus(&MODEL, &codes).unwrap());
        assert_eq!(post("?format=ids", &audio), to_ids(&MODEL, &codes).unwrap());
        assert_eq!(post("?format=codes", &audio), to_json(&MODEL, &codes));
    }
    let clip = clip(30_000);
    let packed = flac::encode(&clip, flac::Depth::S16).unwrap();
    assert_eq!(post("", &packed), to_orpheus(&MODEL, &codes(&clip)).unwrap());
}

#[test]
fn opus_in_any_container_has_the_codes_of_the_file() {
    for name in ["hybrid_20ms.opus", "hybrid_20ms.webm"] {
        let mut source = Source::open(golden(name), Target::new(24_000)).unwrap();
        let mut samples = vec![0.0; source.facts().n_samples as usize];
        source.read_f32(0, &mut samples).unwrap();
        assert!(samples.len() >= 7000 && samples.iter().any(|sample| sample.abs() > 0.05), "{name}");
        let answer = SERVER.request("POST", "/v1/encode", &[], &std::fs::read(golden(name)).unwrap());
        assert_eq!((answer.status, answer.is_whole), (200, true), "{name}: {answer:?}");
        let expected = to_orpheus(&MODEL, &codes(&Clip::mono(24_000, samples))).unwrap();
        assert!(answer.body == expected.as_bytes(), "{name}");
    }
}

#[test]
fn clips_that_share_steps_have_the_codes_they_have_alone() {
    let server = &Fixture::plain(1);
    let frame_len = MODEL.config().frame_len();
    let lens = [0, 1, frame_len - 1, frame_len, 5 * frame_len + 1, 20 * frame_len, 41_234];
    std::thread::scope(|scope| {
        for len in lens {
            scope.spawn(move || {
                let clip = clip(len);
                let audio = wav::encode(&clip, wav::SampleFormat::S16).unwrap();
                let answer = server.request("POST", "/v1/encode", &[], &audio);
                assert_eq!((answer.status, answer.is_whole), (200, true), "{len} samples: {answer:?}");
                assert!(answer.body == to_orpheus(&MODEL, &codes(&clip)).unwrap().as_bytes(), "{len} samples");
            });
        }
    });
}

#[test]
fn a_full_encoder_refuses_and_a_clip_that_breaks_off_makes_room() {
    let server = Fixture::plain(1);
    let audio = wav::encode(&clip(24_000), wav::SampleFormat::S16).unwrap();
    let head = "POST /v1/encode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    let begin = || {
        let mut stream = server.connect();
        stream.write_all(&[head.as_bytes(), &audio[..30_000]].concat()).unwrap();
        let (head, _) = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    };
    let mut open: Vec<_> = (0..max_clips(&Device::cpu().unwrap())).map(|_| begin()).collect();
    let refused = server.request("POST", "/v1/encode", &[], &audio);
    assert_eq!((refused.status, refused.code().as_str()), (503, "full"));
    assert_eq!(refused.headers["retry-after"], "1");
    let listed = || server.get("/v1/status").json()["streams"].as_array().unwrap().clone();
    until("all clips are listed", || listed().iter().filter(|stream| stream["kind"] == "encode").count() == open.len());
    drop(open.pop());
    until("the place is free", || server.request("POST", "/v1/encode", &[], &audio).status == 200);
}

#[test]
fn tokens_leave_before_the_audio_ends() {
    let audio = wav::encode(&clip(24_000), wav::SampleFormat::S16).unwrap();
    SERVER.answers_early("/v1/encode", &audio);
}

#[test]
fn what_is_not_audio_is_refused() {
    let post = |query: &str, body: &[u8]| SERVER.refusal(&format!("/v1/encode{query}"), body);
    let is = |code: &str| (400, code.to_owned());
    assert_eq!(post("", b""), is("invalid_content"));
    assert_eq!(post("?format=mp3", b"x"), is("invalid_parameter"));
    assert_eq!(post("", b"this is not audio, whatever its name").0, 400);
    let mut audio = wav::encode(&clip(100), wav::SampleFormat::S16).unwrap();
    audio[20] = 99;
    assert_eq!(post("", &audio).0, 400);
}
