//! `/v1/audio/speech` over a stand-in upstream.
//! More than 400 lines because all of it shares the rendered tokens, the stand-in and its gates.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use melisma::Device;
use melisma::audio::stretch::Stretch;
use melisma::audio::wav::{self, SampleFormat};
use melisma::audio::{self, Clip};
use melisma::runtime::memory::Budget;
use melisma::snac::tokens::{Format, Reader, to_orpheus};
use melisma::snac::{Codes, EncodeEngine, EngineOptions, Noise};
use melisma::synth::{BusConfig, Length, Performance, Setup, Style, compose};
use melisma_server::upstream::{self, Limits, Upstream};
use melisma_server::{Guard, Keyring, Level, Log, Settings};
use serde_json::{Value, json};

use crate::client::{Answer, Fixture, MODEL, base64, codes, read_head, request, samples, settings, unpack, until};
use crate::stand_in::{Ending, Gate, Script, StandIn};

/// The time of one token.
const TOKEN: Duration = Duration::from_micros(12_190);

/// Tokens of rendered music, one to a text.
static TOKENS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let score = compose(&Style::named("focus").unwrap(), 3, 4.0).unwrap();
    let setup = Setup::new(BusConfig::new(24_000)).with_length(Length::Samples(2 * 24_000)).with_max_voices(64);
    let (mut performance, mut samples) = (Performance::new(&score, setup).unwrap(), Vec::new());
    while let Some(block) = performance.next_block(None).unwrap() {
        samples.extend(block.left.iter().zip(block.right).map(|(left, right)| 0.5 * (left + right)));
    }
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    let codes = EncodeEngine::new(&MODEL, &queue, &budget, EngineOptions::new(1)).unwrap().encode(&samples).unwrap();
    split(&to_orpheus(&MODEL, &codes).unwrap())
});

/// One audio token to a text.
fn split(tokens: &str) -> Vec<String> {
    let tokens = tokens.split_inclusive('>').map(str::trim);
    tokens.filter(|token| token.starts_with("<custom_token_")).map(str::to_owned).collect()
}

/// The codes that a reader finds in `texts`.
fn read(texts: &[String]) -> Codes {
    let mut reader = Reader::new(Format::Orpheus, MODEL.config()).unwrap();
    let mut codes = reader.push(texts.concat().as_bytes()).unwrap();
    codes.append(reader.finish().unwrap().frames()).unwrap();
    codes
}

fn s16(samples: &[f32]) -> Vec<u8> {
    wav::encode(&Clip::mono(24_000, samples.to_vec()), SampleFormat::S16).unwrap()[44..].to_vec()
}

/// The samples of `texts`, as `melisma decode` has them.
fn expected(texts: &[String]) -> Vec<f32> {
    samples(&read(texts), &Noise::default())
}

/// Patience that no busy machine exhausts.
fn patient() -> Limits {
    let long = Duration::from_secs(600);
    Limits { connect: long, first: long, idle: long, ..Limits::default() }
}

/// Patience for an upstream that says nothing.
fn quick() -> Limits {
    Limits { first: Duration::from_secs(1), idle: Duration::from_secs(1), ..patient() }
}

/// A server with an upstream.
fn server_at(url: &str, limits: Limits) -> Fixture {
    let settings_of =
        upstream::Settings { limits, ..upstream::Settings::new(url, &upstream::Config::default()).unwrap() };
    Fixture::start(16, Settings { upstream: Some(Upstream::new(settings_of).unwrap()), ..settings() })
}

fn server(script: impl Fn(&Value) -> Script + Send + Sync + 'static) -> (Fixture, StandIn) {
    LazyLock::force(&TOKENS);
    let stand_in = StandIn::start(script).unwrap();
    (server_at(&stand_in.url(), patient()), stand_in)
}

fn body(fields: &Value) -> Vec<u8> {
    let mut body = json!({"model": "tts-1", "voice": "alloy", "input": "Good morning."});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

const JSON: (&str, &str) = ("content-type", "application/json");

fn speak(server: &Fixture, fields: Value) -> Answer {
    server.request("POST", "/v1/audio/speech", &[JSON, ("te", "trailers")], &body(&fields))
}

#[test]
fn every_format_has_the_samples_of_decode() {
    let (server, _stand_in) = server(|_| Script::of(TOKENS.clone()));
    let samples = expected(&TOKENS);
    let layout = audio::Layout::new(24_000, 1);
    let encoded = |format| {
        let mut writer = audio::Writer::piped(Vec::new(), format, layout).unwrap();
        writer.write(&samples).unwrap();
        writer.finish().unwrap()
    };
    for (name, media_type, bytes) in [
        (None, "audio/mpeg", encoded(audio::Format::Mp3)),
        (Some("mp3"), "audio/mpeg", encoded(audio::Format::Mp3)),
        (Some("opus"), "audio/ogg; codecs=opus", encoded(audio::Format::Opus)),
        (Some("flac"), "audio/flac", encoded(audio::Format::Flac(audio::flac::Depth::S16))),
        (Some("wav"), "audio/wav", encoded(audio::Format::Wav(SampleFormat::S16))),
        (Some("pcm"), "application/octet-stream", s16(&samples)),
    ] {
        let answer = speak(&server, json!({"response_format": name}));
        assert_eq!((answer.status, answer.is_whole), (200, true), "{name:?}");
        assert_eq!(answer.headers["content-type"], media_type);
        assert!(answer.body == bytes, "{name:?}: other bytes");
        let events = speak(&server, json!({"response_format": name, "stream_format": "sse"}));
        assert_eq!((events.headers["content-type"].as_str(), events.is_whole), ("text/event-stream", true));
        let (audio, rest) = unpack(&events.body);
        assert!(audio == bytes, "{name:?}: other bytes in events");
        let n = TOKENS.len() as u64;
        let usage = json!({"input_tokens": 7, "output_tokens": n, "total_tokens": n + 7});
        assert_eq!(rest, [json!({"type": "speech.audio.done", "usage": usage})]);
    }
}

#[test]
fn a_picture_is_drawn_while_the_upstream_speaks() {
    let gate = Gate::default();
    let (server, _stand_in) = server({
        let gate = gate.clone();
        move |_| gated(TOKENS[..140].to_vec(), &gate, Vec::new(), Ending::Done)
    });
    let asked = body(&json!({"response_format": "pcm", "stream_format": "sse", "picture": true}));
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &asked)).unwrap();
    let (_, mut bytes) = read_head(&mut stream);
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&bytes).contains(r#""type":"mel""#) {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "no picture came");
        bytes.extend_from_slice(&piece[..n]);
    }
    gate.open();
    let answer = speak(&server, json!({"response_format": "pcm", "stream_format": "sse", "picture": true}));
    let (audio, rest) = unpack(&answer.body);
    assert!(audio == s16(&expected(&TOKENS[..140])));
    let count = |kind: &str, field: &str| -> usize {
        let of = rest.iter().filter(|event| event["type"] == kind);
        of.map(|event| event[field].as_array().map_or_else(|| base64(event[field].as_str().unwrap()).len(), Vec::len))
            .sum()
    };
    let n_frames = audio.len() / 2 / 256;
    assert_eq!(count("mel", "data") / 80, n_frames + 1);
    assert_eq!(count("wave", "min"), n_frames);
    assert_eq!(rest.last().unwrap()["type"], "speech.audio.done");
}

#[test]
fn speed_changes_the_length_as_the_library_does() {
    let (server, _stand_in) = server(|_| Script::of(TOKENS.clone()));
    let samples = expected(&TOKENS);
    let layout = audio::Layout::new(24_000, 1);
    for speed in [0.5, 1.25, 4.0] {
        let mut stretch = Stretch::new(layout, speed).unwrap();
        let mut stretched = stretch.push(&samples).to_vec();
        stretched.extend(stretch.finish());
        let answer = speak(&server, json!({"response_format": "pcm", "speed": speed}));
        assert!(answer.body == s16(&stretched), "{speed}");
        let n = serde_json::from_str::<Value>(&answer.trailers["x-melisma-ledger"]).unwrap()["samples"].clone();
        assert_eq!(n, stretched.len());
    }
}

#[test]
fn long_inputs_are_joined_without_a_gap() {
    // The first piece goes on only when the second is asked for.
    let gate = Gate::default();
    let stand_in = StandIn::start(move |body| {
        if body["prompt"].as_str().unwrap().contains("number 0") {
            return gated(TOKENS[..35].to_vec(), &gate, TOKENS[35..70].to_vec(), Ending::Done);
        }
        gate.open();
        Script::of(TOKENS[70..140].to_vec())
    });
    let stand_in = stand_in.unwrap();
    // The limit of tokens is that of a piece.
    let server = server_at(&stand_in.url(), Limits { tokens: 70, ..patient() });
    let input: String =
        (0..8).map(|n| format!("This is sentence number {n}, which is of no particular length. ")).collect();
    let answer = speak(&server, json!({"input": input, "response_format": "pcm", "instructions": "softly"}));
    let prompts: Vec<Value> = stand_in.asked().into_iter().map(|asked| asked.body["prompt"].clone()).collect();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].as_str().unwrap().contains("tara: This is sentence number 4"), "{prompts:?}");
    assert!(answer.body == s16(&expected(&TOKENS[..140])));
    let stored = server.get(&format!("/v1/ledger/{}", answer.headers["x-request-id"]));
    assert_eq!((stored.json()["frames"].clone(), stored.json()["samples"].clone()), (json!(20), json!(20 * 2048)));
}

#[test]
fn audio_leaves_while_tokens_arrive_and_a_client_that_leaves_ends_the_request() {
    // It neither ends nor says anything more: what arrives has left before the end.
    let (server, stand_in) =
        server(|_| Script::Stream { texts: TOKENS.clone(), pace: Duration::ZERO, ending: Ending::Stall });
    for format in ["mp3", "opus", "flac", "wav", "pcm"] {
        let mut stream = server.connect();
        let request = request("POST", "/v1/audio/speech", &[JSON], &body(&json!({"response_format": format})));
        stream.write_all(&request).unwrap();
        let (head, mut bytes) = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        while bytes.is_empty() {
            let mut piece = [0; 1024];
            let n = stream.read(&mut piece).unwrap();
            assert!(n > 0, "{format}: the answer ended");
            bytes.extend_from_slice(&piece[..n]);
        }
        drop(stream);
        until("the upstream is left alone", || stand_in.n_open() == 0);
    }
}

#[test]
fn ten_speakers_at_once_have_what_each_has_alone() {
    let texts = |seed: i32| split(&to_orpheus(&MODEL, &codes(seed, 20)).unwrap());
    let (server, _stand_in) = server(move |body| {
        let prompt = body["prompt"].as_str().unwrap();
        let seed = prompt.split("number ").nth(1).unwrap().split('.').next().unwrap().parse().unwrap();
        Script::Stream { texts: texts(seed), pace: TOKEN / 5, ending: Ending::Done }
    });
    std::thread::scope(|scope| {
        for seed in 0..10 {
            let server = &server;
            scope.spawn(move || {
                let input = format!("I am number {seed}.");
                let answer = speak(server, json!({"input": input, "response_format": "pcm"}));
                assert!(answer.body == s16(&expected(&texts(seed))), "speaker {seed}");
            });
        }
    });
}

/// `first`, and the rest when the gate is open.
fn gated(first: Vec<String>, gate: &Gate, rest: Vec<String>, ending: Ending) -> Script {
    Script::Gated { texts: first, gate: gate.clone(), rest, ending }
}

/// A server whose upstream follows the script of the case that the input names.
fn server_of(scripts: Vec<Script>, limits: Limits) -> Fixture {
    LazyLock::force(&TOKENS);
    let stand_in = StandIn::start(move |body| {
        let case = body["prompt"].as_str().unwrap().split("Case ").nth(1).unwrap().split('.').next().unwrap();
        scripts[case.parse::<usize>().unwrap()].clone()
    });
    server_at(&stand_in.unwrap().url(), limits)
}

#[test]
fn faults_before_the_first_audio_have_a_status() {
    let raw = |text: &str| Script::Raw(text.as_bytes().to_vec());
    let stream = |texts: &[&str], ending| Script::Stream {
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        pace: Duration::ZERO,
        ending,
    };
    let of = |media_type: &str, body: &str| {
        raw(&format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\nconnection: close\r\n\r\n{body}"))
    };
    let events = |body: &str| of("text/event-stream", body);
    let words: Vec<&str> = std::iter::repeat_n("I am afraid that I cannot do that. ", 1000).collect();
    let redirect = "HTTP/1.1 302 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let cases = [
        ("refused", raw("HTTP/1.1 401 No\r\ncontent-length: 9\r\n\r\nwrong key"), 502, "upstream_status"),
        ("busy", raw("HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n"), 503, "upstream_busy"),
        ("redirect", raw(redirect), 502, "upstream_redirect"),
        ("html", of("text/html", "hi"), 502, "upstream_garbage"),
        ("not HTTP", raw("hello there\r\n\r\n"), 502, "upstream_garbage"),
        ("not JSON", events("data: hello\n\n"), 502, "upstream_garbage"),
        ("long line", events(&format!("data: {}", "x".repeat(70_000))), 502, "upstream_garbage"),
        ("an error", events("data: {\"error\":{\"message\":\"memory\"}}\n\n"), 502, "upstream_status"),
        ("nothing", raw(""), 502, "upstream_broken"),
        ("no events", events(""), 502, "upstream_broken"),
        ("silence", Script::Silence, 504, "upstream_slow"),
        ("stall", stream(&["hm"], Ending::Stall), 504, "upstream_slow"),
        ("words", stream(&["I", " cannot"], Ending::Done), 502, "upstream_no_audio"),
        ("many words", stream(&words, Ending::Again), 502, "upstream_no_audio"),
        ("cut", stream(&["<custom_token_10>"], Ending::Cut), 502, "upstream_broken"),
        ("length", stream(&["<custom_token_10>"], Ending::Length), 502, "upstream_endless"),
    ];
    let scripts = || cases.iter().map(|(_, script, ..)| script.clone()).collect();
    let servers = [patient(), quick()].map(|limits| server_of(scripts(), limits));
    let server = |code: &str| &servers[usize::from(code == "upstream_slow")];
    for (case, (name, _, status, code)) in cases.iter().enumerate() {
        let answer = speak(server(code), json!({"input": format!("Case {case}.")}));
        assert_eq!((answer.status, answer.code()), (*status, (*code).to_owned()), "{name}: {answer:?}");
    }
    for (_, _, _, code) in &cases {
        let metrics = String::from_utf8(server(code).get("/metrics").body).unwrap();
        let n = cases.iter().filter(|(.., other)| code == other).count();
        let counted = format!("melisma_upstream_requests_total{{outcome=\"{code}\"}} {n}\n");
        assert!(metrics.contains(&counted), "{counted}: {metrics}");
    }
}

#[test]
fn an_upstream_that_is_not_there_is_a_fault_of_the_request_only() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = server_at(&format!("http://127.0.0.1:{port}"), patient());
    assert_eq!(server.get("/ready").status, 200);
    let answer = speak(&server, json!({}));
    assert_eq!((answer.status, answer.code().as_str()), (502, "upstream_unreachable"));
}

#[test]
fn an_upstream_that_never_reads_is_too_slow() {
    // Nobody accepts: the system takes the connection and some bytes.
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_at(&format!("http://{}", upstream.local_addr().unwrap()), quick());
    let answer = speak(&server, json!({"input": "Good morning. ".repeat(290)}));
    assert_eq!((answer.status, answer.code().as_str()), (504, "upstream_slow"));
}

#[test]
fn faults_after_the_first_audio_cut_the_answer_off_or_are_told() {
    let tokens = |n: usize| TOKENS[..n].to_vec();
    let frame =
        |n: i32| -> Vec<String> { (0..7).map(|slot| format!("<custom_token_{}>", 10 + 4096 * slot + n)).collect() };
    let many: Vec<String> = (0..80).flat_map(frame).collect();
    let cycle = [frame(1), frame(2)].concat();
    let cases = [
        ("cut", tokens(140), Vec::new(), Ending::Cut, "upstream_broken"),
        ("stall", tokens(140), Vec::new(), Ending::Stall, "upstream_slow"),
        ("length", tokens(140), Vec::new(), Ending::Length, "upstream_endless"),
        ("a loop", vec![cycle.clone(); 10].concat(), cycle, Ending::Again, "upstream_repeats"),
        ("endless", many[..140].to_vec(), many[140..].to_vec(), Ending::Done, "upstream_endless"),
    ];
    // Each is spoken as audio and as events, with a gate that the first audio opens.
    let gates: Vec<Gate> = (0..2 * cases.len()).map(|_| Gate::default()).collect();
    let script = |(index, gate): (usize, &Gate)| {
        let (_, first, rest, ending, _) = &cases[index / 2];
        gated(first.clone(), gate, rest.clone(), *ending)
    };
    let server =
        |idle| server_of(gates.iter().enumerate().map(script).collect(), Limits { tokens: 450, idle, ..patient() });
    // Patience for the first audio, which opens the gate, also on a busy machine.
    let (calm, hasty) = (server(patient().idle), server(Duration::from_secs(6)));
    let speak = |case: usize, stream_format: &str| {
        let server = if cases[case / 2].0 == "stall" { &hasty } else { &calm };
        let fields =
            json!({"input": format!("Case {case}."), "response_format": "pcm", "stream_format": stream_format});
        let mut stream = server.connect();
        stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &body(&fields))).unwrap();
        let (head, bytes) = read_head(&mut stream);
        gates[case].open();
        Answer::finish(&mut stream, &head, bytes)
    };
    std::thread::scope(|scope| {
        for (case, (name, .., code)) in cases.iter().enumerate() {
            scope.spawn(move || {
                let plain = speak(2 * case, "audio");
                assert_eq!((plain.status, plain.is_whole), (200, false), "{name}: {plain:?}");
            });
            scope.spawn(move || {
                let events = speak(2 * case + 1, "sse");
                let (_, rest) = unpack(&events.body);
                assert_eq!((rest.len(), events.is_whole), (1, true), "{name}: {rest:?}");
                assert_eq!((&rest[0]["type"], &rest[0]["error"]["code"]), (&json!("error"), &json!(code)), "{name}");
            });
        }
    });
}

#[test]
fn foreign_tokens_within_audio_are_skipped_and_counted() {
    let mut texts = TOKENS[..140].to_vec();
    texts.insert(70, "Um, <custom_token_99999>".to_owned());
    let (server, _stand_in) = server({
        let texts = texts.clone();
        move |_| Script::of(texts.clone())
    });
    let answer = speak(&server, json!({"response_format": "pcm"}));
    assert!(answer.body == s16(&expected(&texts)));
    let ledger: Value = serde_json::from_str(&answer.trailers["x-melisma-ledger"]).unwrap();
    assert_eq!((&ledger["accepted"], &ledger["rejected"]), (&json!(140), &json!(1)));
    let (_, rest) = unpack(&speak(&server, json!({"response_format": "pcm", "stream_format": "sse"})).body);
    assert_eq!(rest[0]["usage"]["output_tokens"], 140);
}

#[test]
fn the_key_of_the_client_stays_here() {
    let stand_in = StandIn::start(|_| Script::of(TOKENS[..70].to_vec())).unwrap();
    let mut of = upstream::Settings::new(&stand_in.url(), &upstream::Config::default()).unwrap();
    of.key = Some("theirs".to_owned());
    let events = Arc::<Mutex<String>>::default();
    let seen = Arc::clone(&events);
    let guard = Guard { keys: Keyring::of_key("a", "ours").unwrap(), ..Guard::default() };
    let log = Log::new(Level::Info, move |_, event| *seen.lock().unwrap() += event);
    let upstream = Some(Upstream::new(of).unwrap());
    let server = Fixture::start(2, Settings { guard, log, upstream, ..settings() });
    assert_eq!(speak(&server, json!({})).status, 401);
    let headers = [JSON, ("authorization", "Bearer ours")];
    let answer = server.request("POST", "/v1/audio/speech", &headers, &body(&json!({})));
    assert_eq!(answer.status, 200);
    let head = &stand_in.asked()[0].head;
    assert!(head.contains("authorization: Bearer theirs") && !head.contains("ours"), "{head}");
    server.join().unwrap();
    let events = events.lock().unwrap();
    assert!(events.contains("upstream") && !events.contains("theirs") && !events.contains("Bearer"), "{events}");
}

#[test]
fn models_and_voices_are_listed_where_there_is_an_upstream() {
    let (server, _stand_in) = server(|_| Script::Silence);
    let ids = |path: &str, list: &str, server: &Fixture| -> Vec<Value> {
        server.get(path).json()[list].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids("/v1/models", "data", &server), ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma"]);
    let voices = ["tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe"];
    assert_eq!(ids("/v1/audio/voices", "voices", &server), voices);
    let mute = Fixture::plain(1);
    assert!(ids("/v1/models", "data", &mute).is_empty() && ids("/v1/audio/voices", "voices", &mute).is_empty());
    let answer = speak(&mute, json!({}));
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_voice"));
    assert_eq!(answer.headers["x-should-retry"], "false");
}

#[test]
fn bodies_are_json_within_limits() {
    let (server, _stand_in) = server(|_| Script::of(TOKENS[..70].to_vec()));
    let post = |headers: &[(&str, &str)], body: &[u8]| server.request("POST", "/v1/audio/speech", headers, body).status;
    assert_eq!(post(&[("content-type", "text/plain")], b"{}"), 415);
    assert_eq!(post(&[JSON], b"{}"), 400);
    assert_eq!(post(&[JSON], &vec![b' '; 200_000]), 413);
    assert_eq!(post(&[("content-type", "application/json; charset=utf-8")], &body(&json!({"model": "other"}))), 404);
    assert_eq!(post(&[JSON], &body(&json!({"response_format": "aac"}))), 400);
}
