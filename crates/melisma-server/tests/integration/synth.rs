//! `/v1/synth`: live music as a WebSocket, and whole pieces.

use std::sync::LazyLock;
use std::time::Instant;

use melisma::audio::wav::{self, SampleFormat};
use melisma::audio::{Clip, Source, Target};
use melisma::synth::{BusConfig, Endless, EngineConfig, Length, Performance, Setup, Style, compose};
use melisma_server::websocket::Message;
use melisma_server::{Guard, Limits};
use serde_json::Value;

use crate::client::{Fixture, Socket, until};

static SERVER: LazyLock<Fixture> = LazyLock::new(|| Fixture::plain(1));

fn stereo(left: &[f32], right: &[f32]) -> Vec<f32> {
    left.iter().zip(right).flat_map(|(left, right)| [*left, *right]).collect()
}

/// A listener, once there is a place: a busy machine has few, and other tests listen too.
fn listen(query: &str) -> Socket {
    let mut socket = None;
    until("a place for a listener", || {
        socket = match SERVER.socket(&format!("/v1/synth?{query}"), &[]) {
            Ok(socket) => Some(socket),
            Err(refused) if refused.code() == "full" => None,
            Err(refused) => panic!("{refused:?}"),
        };
        socket.is_some()
    });
    socket.unwrap()
}

/// What one message of a stream is.
enum Heard {
    Block { position: u64, flags: u32, samples: Vec<u8> },
    Control(Value),
}

fn hear(socket: &mut Socket) -> Option<Heard> {
    match socket.next()? {
        Message::Binary(block) => Some(Heard::Block {
            position: u64::from_le_bytes(block[..8].try_into().unwrap()),
            flags: u32::from_le_bytes(block[12..16].try_into().unwrap()),
            samples: block[16..].to_vec(),
        }),
        Message::Text(text) => Some(Heard::Control(serde_json::from_str(&text).unwrap())),
        _ => None,
    }
}

#[test]
fn an_untouched_stream_is_the_endless_piece() {
    let mut socket = listen("preset=focus&seed=7&sample_format=f32");
    let start = socket.next_json();
    assert_eq!((&start["channels"], &start["sample_rate_hz"]), (&2.into(), &48_000.into()));
    let (mut music, _remote) = Endless::new(Style::named("focus").unwrap(), 7, EngineConfig::default()).unwrap();
    let (mut n_blocks, mut n_notes, mut n_levels) = (0, 0, 0);
    while n_blocks < 30 {
        match hear(&mut socket).unwrap() {
            Heard::Block { position, flags, samples } => {
                let block = music.next_block().unwrap();
                assert_eq!((position, flags), (block.position, 4));
                let expected: Vec<u8> =
                    stereo(block.left, block.right).iter().flat_map(|sample| sample.to_le_bytes()).collect();
                assert!(samples == expected, "block {n_blocks}");
                n_blocks += 1;
            }
            Heard::Control(control) if control["type"] == "notes" => {
                assert_eq!(n_blocks, 0, "the first phrase comes before its first block");
                n_notes += control["notes"].as_array().unwrap().len();
                assert!(control["notes"][0]["duration_samples"].as_u64().unwrap() > 0);
            }
            Heard::Control(control) => {
                assert_eq!((&control["type"], &control["sample"]), (&"level".into(), &(n_blocks * 480).into()));
                n_levels += 1;
            }
        }
    }
    assert!(n_notes > 0 && n_levels >= 2, "{n_notes} notes, {n_levels} levels");
}

#[test]
fn a_listener_may_ask_for_a_longer_lead() {
    let ahead_ms = |socket: &mut Socket, start: Instant| loop {
        if let Heard::Block { position, .. } = hear(socket).unwrap() {
            return position as f64 / 48.0 - start.elapsed().as_secs_f64() * 1e3;
        }
    };
    let mut socket = listen("preset=focus&ahead=30");
    let start = Instant::now();
    let before = (0..30).map(|_| ahead_ms(&mut socket, start)).fold(f64::MIN, f64::max);
    socket.say(r#"{"type":"ahead","milliseconds":400}"#);
    until("blocks leave 250 ms earlier", || ahead_ms(&mut socket, start) > before + 250.0);
    socket.say(r#"{"type":"ahead","milliseconds":501}"#);
    let said = std::iter::from_fn(|| hear(&mut socket)).find_map(|heard| match heard {
        Heard::Control(control) if control["type"] == "error" => Some(control["error"]["message"].to_string()),
        _ => None,
    });
    assert!(said.as_deref().is_some_and(|said| said.contains("at most 500")), "{said:?}");
}

/// The peak of each block from the next on, until the stream ends or `n` blocks were heard.
fn peaks(socket: &mut Socket, n: usize) -> (Vec<f32>, u32) {
    let (mut peaks, mut last) = (Vec::new(), 0);
    while peaks.len() < n
        && let Some(heard) = hear(socket)
    {
        if let Heard::Block { flags, samples, .. } = heard {
            let samples = samples.chunks(4).map(|sample| f32::from_le_bytes(sample.try_into().unwrap()).abs());
            peaks.push(samples.fold(0.0, f32::max));
            last = flags;
        }
    }
    (peaks, last)
}

#[test]
fn a_listener_plays_along_and_stops() {
    let mut socket = listen("preset=sleep&rate=24000&sample_format=f32");
    socket.next_json();
    let hear_until = |socket: &mut Socket, is_reached: &dyn Fn(f32) -> bool, what: &str| {
        until(what, || is_reached(peaks(socket, 1).0[0]));
    };
    socket.say(r#"{"type":"set","parameter":"gain","value":0.0}"#);
    hear_until(&mut socket, &|peak| peak == 0.0, "the gain is obeyed");
    socket.say(r#"{"type":"set","parameter":"gain","value":1.0}"#);
    for note in [
        r#"{"type":"note","instrument":"pluck","key":60,"velocity":0.8,"duration":0.05}"#,
        r#"{"type":"note_on","instrument":"lead","key":64,"velocity":0.9}"#,
    ] {
        socket.say(note);
    }
    hear_until(&mut socket, &|peak| peak > 0.05, "the notes are heard");
    socket.say(r#"{"type":"note_off","instrument":"lead","key":64}"#);
    socket.say(r#"{"type":"stop"}"#);
    let (_, last) = peaks(&mut socket, usize::MAX);
    assert_eq!(last, 6, "the last block is marked");
}

#[test]
fn mistakes_are_told() {
    let told = |message: &str| {
        let mut socket = listen("preset=focus");
        socket.say(message);
        loop {
            match hear(&mut socket).unwrap() {
                Heard::Control(control) if control["type"] == "error" => {
                    return control["error"]["code"].as_str().unwrap().to_owned();
                }
                _ => {}
            }
        }
    };
    assert_eq!(told("play louder"), "invalid_message");
    assert_eq!(told(r#"{"type":"set","parameter":"volume","value":1}"#), "invalid_message");
    assert_eq!(told(r#"{"type":"set","parameter":"gain","value":2}"#), "invalid_value");
    assert_eq!(told(r#"{"type":"note","instrument":"pluck","key":60,"velocity":0.8,"duration":-1}"#), "invalid_value");
    assert_eq!(told(r#"{"type":"note_on","instrument":"pluck","key":200,"velocity":0.8}"#), "invalid_value");
    assert_eq!(told(r#"{"type":"note_on","instrument":"kazoo","key":60,"velocity":0.8}"#), "invalid_message");
    assert_eq!(told(r#"{"type":"note_on","instrument":"pluck","key":"c","velocity":0.8}"#), "invalid_message");
    assert_eq!(told(r#"{"type":"note_off","instrument":"pluck","key":60,"velocity":1}"#), "invalid_message");
    assert_eq!(told(r#"{"type":"stop""#), "invalid_message");
    assert_eq!(told("\u{1F3B5} \u{0}"), "invalid_message");
    for query in ["", "?preset=noise", "?preset=focus&rate=1", "?preset=focus&sample_format=u8"] {
        let refused = SERVER.socket(&format!("/v1/synth{query}"), &[]).err().unwrap();
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_parameter"), "{query}");
    }
}

/// A server for one listener.
fn small() -> Fixture {
    Fixture::new(1, Guard::default(), Limits { listeners: 1, ..Limits::default() })
}

#[test]
fn a_listener_that_leaves_is_forgotten() {
    let server = small();
    let count = || String::from_utf8(server.get("/metrics").body).unwrap();
    let socket = server.socket("/v1/synth?preset=focus", &[]).ok().unwrap();
    assert!(count().contains("melisma_synth_streams 1\n"));
    drop(socket);
    until("nobody listens", || count().contains("melisma_synth_streams 0\n"));
}

#[test]
fn a_full_server_says_so_also_to_those_who_only_ask() {
    let server = small();
    let ask = || server.get("/v1/synth?preset=focus");
    assert_eq!((ask().status, ask().code().as_str()), (426, "websocket_required"));
    let _listener = server.socket("/v1/synth?preset=focus", &[]).ok().unwrap();
    let refused = server.socket("/v1/synth?preset=focus", &[]).err().unwrap();
    for answer in [refused, ask()] {
        assert_eq!((answer.status, answer.code().as_str()), (503, "full"));
        assert_eq!(answer.headers["retry-after"], "1");
    }
}

#[test]
fn a_piece_is_the_one_of_the_command_line() {
    let style = Style::named("bright").unwrap();
    let score = compose(&style, 3, 1.5).unwrap();
    let setup = Setup::new(BusConfig::new(24_000)).with_length(Length::Samples(36_000));
    let mut performance = Performance::new(&score, setup).unwrap();
    let mut samples = Vec::new();
    while let Some(block) = performance.next_block(None).unwrap() {
        samples.extend(stereo(block.left, block.right));
    }
    let clip = Clip { sample_rate: 24_000, n_channels: 2, samples };
    let answer = SERVER.get("/v1/synth.wav?preset=bright&seed=3&seconds=1.5&rate=24000");
    assert_eq!((answer.status, answer.is_whole), (200, true));
    assert!(answer.body == wav::encode(&clip, SampleFormat::S16).unwrap());
    let flac = SERVER.get("/v1/synth.flac?preset=bright&seed=3&seconds=1.5&rate=24000");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.flac"), &flac.body).unwrap();
    let source = Source::open(folder.path().join("a.flac"), Target::new(24_000)).unwrap();
    assert_eq!((source.facts().n_samples, source.facts().n_channels), (36_000, 2));
    assert_eq!(u64::from_be_bytes(flac.body[18..26].try_into().unwrap()) & ((1 << 36) - 1), 36_000);
    let mut shortest = None;
    until("a place for a piece", || {
        shortest = Some(SERVER.get("/v1/synth.wav?preset=bright&seconds=1e-6")).filter(|answer| answer.status != 503);
        shortest.is_some()
    });
    let shortest = shortest.unwrap();
    assert_eq!((shortest.status, shortest.body.len()), (200, 44 + 4), "one sample");
    for query in ["seconds=0", "seconds=-1", "seconds=1e9", "seconds=nan"] {
        assert_eq!(SERVER.get(&format!("/v1/synth.wav?preset=bright&{query}")).status, 400, "{query}");
    }
}

#[test]
fn notes_are_those_of_the_command_line_and_refusals_have_reasons() {
    let score = compose(&Style::named("sleep").unwrap(), 5, 30.0).unwrap();
    let mut midi = None;
    until("a place for a piece", || {
        midi = Some(SERVER.get("/v1/synth.mid?preset=sleep&seed=5&seconds=30")).filter(|answer| answer.status != 503);
        midi.is_some()
    });
    let midi = midi.unwrap();
    assert_eq!((midi.status, &*midi.headers["content-type"]), (200, "audio/midi"));
    assert!(midi.body == score.to_midi().unwrap());
    let status = || SERVER.get("/v1/status").json();
    let count = |status: &Value| status["refusals"]["invalid_parameter"].as_u64().unwrap_or(0);
    let before = count(&status());
    assert_eq!(SERVER.get("/v1/synth.mid?preset=sleep&reverb=2").status, 400);
    let after = status();
    assert!(count(&after) > before, "{after}");
    let metrics = String::from_utf8(SERVER.get("/metrics").body).unwrap();
    assert!(metrics.contains("melisma_refused_requests_total{code=\"invalid_parameter\"} "));
    let limit = |kind: &str| after["places"][kind]["limit"].as_u64().unwrap();
    assert!(limit("decode") > 0 && limit("synth") > 0 && limit("encode") > 0, "{after}");
    assert_eq!(after["capacity_streams"].as_u64(), Some(limit("decode")));
    assert!(after["frame_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{after}");
}
