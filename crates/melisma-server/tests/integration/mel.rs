//! Pictures: `POST /v1/mel` and `WS /v1/decode?picture=1`.

use std::io::Write;
use std::sync::LazyLock;

use melisma::audio::{Clip, flac, wav};
use melisma::mel::PRESETS;
use melisma::random::Lcg32;
use melisma_server::websocket::Message;
use melisma_server::{Guard, Limits};
use serde_json::Value;

use crate::client::{Fixture, codes, golden, read_head, tokens, until};

static SERVER: LazyLock<Fixture> = LazyLock::new(|| {
    let limits = Limits { pictures: 8, ..Limits::default() };
    Fixture::new(2, Guard::default(), limits)
});

fn clip(sample_rate: u32, n_samples: usize) -> Clip {
    let mut random = Lcg32::new(9);
    let samples = (0..n_samples).map(|_| (0.3 * random.signed() * 32_768.0).round() / 32_768.0);
    Clip::mono(sample_rate, samples.collect())
}

fn lines(body: &[u8]) -> Vec<Value> {
    std::str::from_utf8(body).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Frames and samples that messages cover without a gap.
fn covered(messages: &[Value]) -> (usize, usize) {
    let (mut n_frames, mut n_steps, mut step) = (0, 0, 0);
    for message in messages {
        match message["type"].as_str().unwrap() {
            "mel" => {
                assert_eq!(message["first_frame"], n_frames);
                let data = message["data"].as_str().unwrap();
                let n_bytes = data.len() / 4 * 3 - data.matches('=').count();
                let n_mels = message["n_mels"].as_u64().unwrap() as usize;
                assert_eq!(n_bytes % n_mels, 0);
                n_frames += n_bytes / n_mels;
            }
            "wave" => {
                step = message["step"].as_u64().unwrap() as usize;
                assert_eq!(message["first_sample"], n_steps * step);
                let n = |name: &str| message[name].as_array().unwrap().len();
                assert_eq!(n("min"), n("max"));
                n_steps += n("min");
            }
            other => panic!("{other}"),
        }
    }
    (n_frames, n_steps * step)
}

#[test]
fn a_file_of_any_format_becomes_a_picture() {
    let clip = clip(22_050, 50_000);
    let audio = wav::encode(&clip, wav::SampleFormat::S16).unwrap();
    let answer = SERVER.request("POST", "/v1/mel", &[], &audio);
    assert_eq!((answer.status, answer.is_whole), (200, true), "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    assert_eq!(answer.headers["x-melisma-sample-rate-hz"], "22050");
    let messages = lines(&answer.body);
    assert_eq!(covered(&messages), (1 + 50_000 / 256, 50_176));
    let mel = messages.iter().find(|message| message["type"] == "mel").unwrap();
    assert_eq!((&mel["n_mels"], &mel["hop_samples"]), (&80.into(), &256.into()));
    let keys: Vec<&String> = mel.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["data", "first_frame", "hop_samples", "n_mels", "type"]);
    let packed = flac::encode(&clip, flac::Depth::S16).unwrap();
    let of_flac = lines(&SERVER.request("POST", "/v1/mel", &[], &packed).body);
    let outline = |messages: &[Value]| -> Vec<Value> {
        let waves = messages.iter().filter(|message| message["type"] == "wave");
        waves.flat_map(|wave| wave["max"].as_array().unwrap().clone()).collect()
    };
    assert_eq!(covered(&of_flac), covered(&messages));
    assert_eq!(outline(&of_flac), outline(&messages));
    let whisper = SERVER.request("POST", "/v1/mel?preset=whisper-128", &[], &audio);
    assert_eq!(whisper.headers["x-melisma-sample-rate-hz"], "16000");
    let mel = lines(&whisper.body).into_iter().find(|message| message["type"] == "mel").unwrap();
    assert_eq!((&mel["n_mels"], &mel["hop_samples"]), (&128.into(), &160.into()));
}

#[test]
fn opus_in_any_container_has_the_picture_of_what_opusdec_makes_of_it() {
    let picture = |name: &str| {
        let answer = SERVER.request("POST", "/v1/mel", &[], &std::fs::read(golden(name)).unwrap());
        assert_eq!((answer.status, answer.is_whole), (200, true), "{name}: {answer:?}");
        lines(&answer.body)
    };
    let peaks = |messages: &[Value]| -> Vec<f64> {
        let waves = messages.iter().filter(|message| message["type"] == "wave");
        waves.flat_map(|wave| wave["max"].as_array().unwrap().iter().map(|peak| peak.as_f64().unwrap())).collect()
    };
    let decoded = picture("hybrid_20ms.flac");
    assert!(peaks(&decoded).iter().any(|&peak| peak > 0.05));
    for name in ["hybrid_20ms.opus", "hybrid_20ms.webm"] {
        let found = picture(name);
        assert_eq!(covered(&found), covered(&decoded), "{name}");
        for (at, (found, decoded)) in peaks(&found).into_iter().zip(peaks(&decoded)).enumerate() {
            assert!((found - decoded).abs() < 1e-3, "{name}: {found} at {at}, not {decoded}");
        }
    }
}

#[test]
fn the_picture_leaves_before_the_audio_ends() {
    let audio = wav::encode(&clip(22_050, 60_000), wav::SampleFormat::S16).unwrap();
    SERVER.answers_early("/v1/mel", &audio);
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let post = |query: &str, body: &[u8]| SERVER.refusal(&format!("/v1/mel{query}"), body);
    let is = |code: &str| (400, code.to_owned());
    assert_eq!(post("", b""), is("invalid_content"));
    assert_eq!(post("?preset=wisper", b"x"), is("invalid_parameter"));
    let said = SERVER.request("POST", "/v1/mel?preset=wisper", &[], b"x").json()["error"]["message"].to_string();
    assert!(PRESETS.iter().all(|(name, _)| said.contains(name)), "{said}");
    assert_eq!(post("?n_mels=80", b"x"), is("invalid_parameter"));
    assert_eq!(post("", b"this is not audio, whatever its name").0, 400);
    let short = wav::encode(&clip(22_050, 100), wav::SampleFormat::S16).unwrap();
    assert_eq!(post("", &short), is("invalid_value"));
}

#[test]
fn files_beyond_the_limit_are_refused() {
    let server = Fixture::new(1, Guard::default(), Limits { pictures: 1, ..Limits::default() });
    let audio = wav::encode(&clip(22_050, 60_000), wav::SampleFormat::S16).unwrap();
    let mut held = server.connect();
    let head = "POST /v1/mel HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    held.write_all(&[head.as_bytes(), &audio].concat()).unwrap();
    let (head, _) = read_head(&mut held);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let refused = server.request("POST", "/v1/mel", &[], &audio);
    assert_eq!((refused.status, refused.code().as_str()), (503, "full"));
    assert_eq!(refused.headers["retry-after"], "1");
    drop(held);
    until("the place is free", || server.request("POST", "/v1/mel", &[], &audio).status == 200);
}

#[test]
fn a_stream_has_its_picture_beside_its_samples() {
    let codes = codes(8, 20);
    let mut socket = SERVER.socket("/v1/decode?picture=1", &[]).ok().unwrap();
    assert_eq!(socket.next_json()["type"], "start");
    socket.say(&tokens(&codes));
    socket.say(r#"{"type":"end"}"#);
    let (mut n_samples, mut messages, mut ledger) = (0, Vec::new(), None);
    while let Some(message) = socket.next() {
        match message {
            Message::Binary(block) => n_samples += block[16..].len() / 2,
            Message::Text(text) => {
                let message: Value = serde_json::from_str(&text).unwrap();
                assert!(ledger.is_none(), "a message after the ledger");
                if message["type"] == "ledger" { ledger = Some(message) } else { messages.push(message) }
            }
            _ => {}
        }
    }
    assert_eq!(ledger.unwrap()["samples"], n_samples);
    let (n_frames, n_drawn) = covered(&messages);
    assert_eq!((n_frames, n_drawn), (1 + n_samples / 256, n_samples.next_multiple_of(256)));
    let refused = SERVER.socket("/v1/decode?picture=yes", &[]).err().unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_parameter"));
}
