//! What is left of speech when the upstream fails or the client leaves.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use melisma::audio::Clip;
use melisma::audio::wav::{self, SampleFormat};
use melisma::snac::Noise;
use melisma::snac::tokens::to_orpheus;
use melisma_server::upstream::{self, Limits, Upstream};
use melisma_server::{Level, Log, Settings};
use serde_json::json;

use crate::client::{Answer, Fixture, MODEL, codes, read_head, request, samples, settings};
use crate::stand_in::{Ending, Script, StandIn};

const JSON: (&str, &str) = ("content-type", "application/json");
const KEY: &str = "sk-theirs-0123456789";

/// A server whose upstream always follows `script`, and its events.
struct Stage {
    server: Fixture,
    stand_in: StandIn,
    events: Arc<Mutex<String>>,
}

impl Stage {
    fn new(script: Script, limits: Limits) -> Self {
        let stand_in = StandIn::start(move |_| script.clone()).unwrap();
        let settings_of = upstream::Settings::new(&stand_in.url(), &upstream::Config::default()).unwrap();
        let upstream = Upstream::new(upstream::Settings { limits, key: Some(KEY.to_owned()), ..settings_of }).unwrap();
        let events = Arc::<Mutex<String>>::default();
        let seen = Arc::clone(&events);
        let log = Log::new(Level::Info, move |_, line| *seen.lock().unwrap() += line);
        let server = Fixture::start(16, Settings { upstream: Some(upstream), log, ..settings() });
        Self { server, stand_in, events }
    }

    fn speak(&self, format: &str) -> Answer {
        self.server.request("POST", "/v1/audio/speech", &[JSON], &body(format))
    }

    /// Waits until a speech is listed and its request has reached the upstream.
    fn wait_for_upstream(&self) {
        let start = Instant::now();
        while self.server.get("/v1/status").json()["streams"][0]["kind"] != "speech" || self.stand_in.n_open() == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "it is not listed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until `outcome` was counted, and not that of an upstream that is silent for too long.
    fn wait_for(&self, outcome: &str) {
        let counted = format!("melisma_upstream_requests_total{{outcome=\"{outcome}\"}} 1\n");
        let start = Instant::now();
        while !String::from_utf8(self.server.get("/metrics").body).unwrap().contains(&counted) {
            assert!(start.elapsed() < Duration::from_secs(60), "{outcome} is not counted");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn body(format: &str) -> Vec<u8> {
    json!({"model": "tts-1", "voice": "tara", "input": "Hi.", "response_format": format}).to_string().into_bytes()
}

/// One text of all tokens of some frames.
fn tokens(n_frames: usize) -> String {
    to_orpheus(&MODEL, &codes(1, n_frames)).unwrap()
}

fn pcm(n_frames: usize) -> Vec<u8> {
    let samples = samples(&codes(1, n_frames), &Noise::default());
    wav::encode(&Clip::mono(24_000, samples), SampleFormat::S16).unwrap()[44..].to_vec()
}

#[test]
fn audio_before_a_fault_arrives_and_without_any_there_is_a_status() {
    let expected = pcm(12);
    // From a fault that overtakes the first audio to one that follows it, however slow the machine is.
    let mut is_heard = false;
    for pause in [0, 5, 20, 100, 1_000, 10_000] {
        if is_heard && pause > 100 {
            break;
        }
        let texts = vec![tokens(12), String::new()];
        let script = Script::Stream { texts, pace: Duration::from_millis(pause), ending: Ending::Cut };
        let stage = Stage::new(script, Limits::default());
        for format in ["pcm", "wav", "mp3", "opus", "flac"] {
            let answer = stage.speak(format);
            match answer.status {
                502 => assert_eq!(answer.code(), "upstream_broken"),
                _ => assert!(!answer.is_whole && !answer.body.is_empty(), "{format} after {pause} ms: {answer:?}"),
            }
            if answer.status == 200 && format == "pcm" {
                assert!(expected.starts_with(&answer.body), "{pause} ms");
            }
            is_heard |= format == "pcm" && answer.status == 200;
        }
    }
    assert!(is_heard, "no audio leaves before the fault");
}

#[test]
fn a_client_that_leaves_a_silent_stream_ends_the_request() {
    let script = Script::Stream { texts: vec![tokens(12)], pace: Duration::ZERO, ending: Ending::Stall };
    let stage = Stage::new(script, Limits { idle: Duration::from_secs(60), ..Limits::default() });
    let mut stream = stage.server.connect();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &body("pcm"))).unwrap();
    let (head, bytes) = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!bytes.is_empty() || stream.read(&mut [0; 64]).unwrap() > 0);
    drop(stream);
    stage.wait_for("client_left");
    assert_eq!(stage.server.get("/v1/status").json()["streams"], json!([]));
}

#[test]
fn speech_that_waits_for_its_first_audio_is_listed() {
    let stage = Stage::new(Script::Silence, Limits::default());
    let mut stream = stage.server.connect();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &body("pcm"))).unwrap();
    stage.wait_for_upstream();
    drop(stream);
    stage.wait_for("client_left");
    let metrics = String::from_utf8(stage.server.get("/metrics").body).unwrap();
    assert!(metrics.contains("{route=\"/v1/audio/speech\",status=\"499\"} 1\n"), "{metrics}");
}

#[test]
fn a_client_that_ends_its_sending_and_leaves_later_ends_the_request() {
    let hour = Duration::from_secs(3600);
    let limits = Limits { first: hour, idle: hour, total: hour, ..Limits::default() };
    let stage = Stage::new(Script::Silence, limits);
    let mut stream = stage.server.connect();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &body("pcm"))).unwrap();
    stage.wait_for_upstream();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    // It is there, and is asked again.
    stream.read_exact(&mut asked).unwrap();
    drop(stream);
    stage.wait_for("client_left");
}

#[test]
fn a_client_that_leaves_behind_a_second_request_ends_the_first() {
    let stage = Stage::new(Script::Silence, Limits::default());
    let mut stream = stage.server.connect();
    let speech = String::from_utf8(request("POST", "/v1/audio/speech", &[JSON], &body("pcm"))).unwrap();
    let pipelined =
        speech.replace("connection: close\r\n", "") + &"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(9);
    stream.write_all(pipelined.as_bytes()).unwrap();
    stage.wait_for_upstream();
    drop(stream);
    stage.wait_for("client_left");
    assert_eq!(stage.server.get("/v1/status").json()["streams"], json!([]));
}

#[test]
fn a_client_that_ends_its_sending_hears_speech_that_begins_late() {
    let texts = vec![String::new(), tokens(12)];
    let script = Script::Stream { texts, pace: Duration::from_millis(400), ending: Ending::Done };
    let stage = Stage::new(script, Limits::default());
    let mut stream = stage.server.connect();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &body("pcm"))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = Answer::read(&mut stream);
    assert!(answer.is_whole && answer.body == pcm(12), "{}", answer.status);
}

#[test]
fn a_stop_is_the_end_also_without_its_last_event() {
    let script = Script::Stream { texts: vec![tokens(12)], pace: Duration::ZERO, ending: Ending::Stop };
    let stage = Stage::new(script, Limits { idle: Duration::from_secs(60), ..Limits::default() });
    let answer = stage.speak("pcm");
    assert!(answer.is_whole && answer.body == pcm(12), "{}", answer.status);
}

#[test]
fn the_upstreams_words_are_logged_without_its_key() {
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let refusal = format!("wrong key {KEY}: {}", "x".repeat(500 - 42) + KEY);
    for (said, shown) in [
        (format!("HTTP/1.1 401 No\r\ncontent-length: {}\r\n\r\n{refusal}", refusal.len()), "wrong key [key]: xx"),
        (format!("{stream}data: {{\"error\":\"no memory for {KEY}\"}}\n\n"), "no memory for [key]"),
        (format!("{stream}data: nonsense {KEY}\n\n"), "nonsense [key]"),
    ] {
        let stage = Stage::new(Script::Raw(said.into_bytes()), Limits::default());
        let answer = stage.speak("pcm");
        assert_eq!(answer.status, 502);
        // All events are written when a server has ended.
        stage.server.join().unwrap();
        let events = stage.events.lock().unwrap();
        assert!(events.contains(shown) && !events.contains("sk-th"), "{events}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("[key]"));
    }
}
