//! What operators see: events, levels, build and the state of the upstream.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use melisma::audio::{Clip, wav};
use melisma_server::event::Field;
use melisma_server::upstream::{self, Upstream};
use melisma_server::{BuildInfo, Guard, Keyring, Level, Limits, Log, Settings};
use serde_json::Value;

use crate::client::{Fixture, codes, settings, tokens, until};
use crate::stand_in::{Script, StandIn};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn log(&self, level: Level) -> Log {
        let seen = Arc::clone(&self.0);
        Log::new(level, move |_, line| seen.lock().unwrap().push(line.to_owned()))
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The event of the request with that route.
    fn event(&self, route: &str) -> Value {
        let mut events = self.all().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        events.rfind(|event| event["route"] == route).unwrap_or_else(|| panic!("{route}: {:?}", self.all()))
    }
}

fn upstream(url: &str) -> Option<Upstream> {
    let of = upstream::Settings::new(url, &upstream::Config::default()).unwrap();
    Some(Upstream::new(of).unwrap())
}

fn metrics(server: &Fixture) -> String {
    String::from_utf8(server.get("/metrics").body).unwrap()
}

/// One audio token to a text.
fn texts() -> Vec<String> {
    let tokens = tokens(&codes(2, 12));
    let tokens = tokens.split_inclusive('>').map(str::trim);
    tokens.filter(|token| token.starts_with("<custom_token_")).map(str::to_owned).collect()
}

#[test]
fn an_event_tells_who_asked_for_what_and_how_long_it_took() {
    let (lines, texts) = (Lines::default(), texts());
    let stand_in = StandIn::start(move |_| Script::of(texts.clone())).unwrap();
    let guard = Guard { keys: Keyring::parse("file", "ann: key-of-ann").unwrap(), ..Guard::default() };
    let (log, upstream) = (lines.log(Level::Info), upstream(&stand_in.url()));
    let server = Fixture::start(2, Settings { guard, log, upstream, ..settings() });
    let headers = [("content-type", "application/json"), ("authorization", "Bearer key-of-ann")];
    let body = br#"{"model": "tts-1", "voice": "zac", "input": "Hi there.", "response_format": "flac"}"#;
    let answer = server.request("POST", "/v1/audio/speech", &headers, body);
    assert_eq!((answer.status, answer.is_whole), (200, true));
    let n_bytes = answer.body.len();
    let wrong = server.request("POST", "/v1/decode?chunk=0", &headers[1..], b"");
    assert_eq!(wrong.status, 400);
    server.join().unwrap();
    let event = lines.event("/v1/audio/speech");
    for (name, value) in [
        ("level", Value::from("info")),
        ("event", "request".into()),
        ("request_id", answer.headers["x-request-id"].as_str().into()),
        ("client", "127.0.0.1".into()),
        ("method", "POST".into()),
        ("status", 200.into()),
        ("kind", "speech".into()),
        ("reason", "done".into()),
        ("key", "ann".into()),
        ("voice", "zac".into()),
        ("format", "flac".into()),
        ("characters", 9.into()),
        ("bytes", n_bytes.into()),
    ] {
        assert_eq!(event[name], value, "{name}: {event}");
    }
    let seconds = |name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{name}: {event}"));
    assert!(seconds("first_token_seconds") <= seconds("first_audio_seconds"), "{event}");
    assert!(seconds("first_audio_seconds") <= seconds("seconds"), "{event}");
    let event = lines.event("/v1/decode");
    assert_eq!((&event["level"], &event["error"]), (&"warn".into(), &"invalid_parameter".into()), "{event}");
    assert!(event["message"].as_str().unwrap().contains("chunk"), "{event}");
    assert!(event.get("voice").is_none() && event.get("reason").is_none(), "{event}");
}

#[test]
fn an_event_has_the_clients_id_and_the_path_of_no_route() {
    let lines = Lines::default();
    let server = Fixture::start(1, Settings { log: lines.log(Level::Info), ..settings() });
    let (long, longer) = ("x".repeat(64), "x".repeat(65));
    let long_path = format!("/{long}");
    for (path, id) in [("/v2/'thing?text=secret", "trace-1"), (long_path.as_str(), long.as_str())] {
        assert_eq!(server.request("GET", path, &[("x-request-id", id)], b"").status, 404, "{path}");
    }
    assert_eq!(server.request("PUT", "/v1/decode", &[("x-request-id", longer.as_str())], b"").status, 405);
    server.get("/v1/presets");
    server.join().unwrap();
    let events: Vec<Value> = lines.all().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |status: u16, path: &str| {
        let is_it = |event: &&Value| event["status"] == status && event["path"] == path;
        events.iter().find(is_it).unwrap_or_else(|| panic!("{path}: {events:?}"))
    };
    assert_eq!(of(404, r"/v2/\'thing")["client_request_id"], "trace-1");
    assert_eq!(of(404, &long_path[..64])["client_request_id"], long.as_str());
    assert!(of(405, "/v1/decode").get("client_request_id").is_none());
    assert!(lines.event("/v1/presets").get("path").is_none());
    assert!(!lines.all().concat().contains("secret"));
}

#[test]
fn every_route_that_makes_something_tells_its_format() {
    let lines = Lines::default();
    let server = Fixture::start(1, Settings { log: lines.log(Level::Info), ..settings() });
    let audio = wav::encode(&Clip::mono(24_000, vec![0.1; 5_000]), wav::SampleFormat::S16).unwrap();
    for path in ["/v1/encode?format=ids", "/v1/mel?preset=whisper-80"] {
        let answer = server.request("POST", path, &[], &audio);
        assert_eq!((answer.status, answer.is_whole), (200, true), "{path}");
    }
    for path in ["/v1/synth.opus?preset=focus&seconds=0.1", "/v1/synth.mid?preset=focus&seconds=0.1"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for (path, said) in [
        ("/v1/decode?sample_format=f32", vec![tokens(&codes(3, 4)), r#"{"type":"end"}"#.to_owned()]),
        ("/v1/synth?preset=focus", vec![r#"{"type":"stop"}"#.to_owned()]),
    ] {
        let mut socket = server.socket(path, &[]).unwrap();
        said.iter().for_each(|text| socket.say(text));
        while socket.next().is_some() {}
    }
    server.join().unwrap();
    let of = |route: &str, name: &str| lines.event(route)[name].clone();
    for (route, format) in [
        ("/v1/encode", "ids"),
        ("/v1/mel", "ndjson"),
        ("/v1/synth.opus", "opus"),
        ("/v1/synth.mid", "midi"),
        ("/v1/decode", "f32"),
        ("/v1/synth", "s16"),
    ] {
        assert_eq!(of(route, "format"), format, "{route}");
        assert_eq!(of(route, "queue_seconds").is_number(), route == "/v1/decode", "{route}");
    }
    assert_eq!(of("/v1/mel", "preset"), "whisper-80");
    assert!(of("/v1/decode", "queue_seconds").as_f64() <= of("/v1/decode", "first_audio_seconds").as_f64());
}

#[test]
fn a_refusal_tells_the_format_that_was_asked_for() {
    let lines = Lines::default();
    let settings = Settings { log: lines.log(Level::Info), ..settings() };
    let limits = Limits { queue: Duration::ZERO, ..settings.limits };
    let server = Fixture::start(1, Settings { limits, ..settings });
    let open = server.socket("/v1/decode", &[]).unwrap();
    assert_eq!(server.post("/v1/decode?format=mp3", b"").status, 503);
    until("the refusal is written", || lines.all().iter().any(|line| line.contains("\"status\":503")));
    let event = lines.event("/v1/decode");
    assert_eq!((&event["format"], &event["error"]), (&"mp3".into(), &"full".into()), "{event}");
    drop(open);
}

#[test]
fn probes_and_scrapes_are_for_a_detailed_log() {
    let told = |level: Level| {
        let lines = Lines::default();
        let server = Fixture::start(1, Settings { log: lines.log(level), ..settings() });
        for path in ["/health", "/ready", "/metrics", "/v1/presets", "/metrics?x=1", "/nothing"] {
            server.get(path);
        }
        server.join().unwrap();
        lines.all().into_iter().filter(|line| line.starts_with('{')).collect::<Vec<_>>()
    };
    let count = |lines: &[String], what: &str| lines.iter().filter(|line| line.contains(what)).count();
    let info = told(Level::Info);
    assert_eq!((info.len(), count(&info, r#""level":"info""#)), (3, 1), "{info:?}");
    let debug = told(Level::Debug);
    assert!(count(&debug, r#""route":"/health""#) == 1 && count(&debug, r#""route":"/ready""#) >= 1, "{debug:?}");
    assert_eq!(told(Level::Error), [""; 0]);
}

#[test]
fn a_detailed_log_has_the_stages_of_every_step() {
    let lines = Lines::default();
    let server = Fixture::start(1, Settings { log: lines.log(Level::Debug), ..settings() });
    let answer = server.post("/v1/decode", tokens(&codes(3, 6)).as_bytes());
    assert_eq!(answer.status, 200);
    server.join().unwrap();
    let chunks: Vec<Value> = lines.all().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let chunks: Vec<&Value> = chunks.iter().filter(|event| event["event"] == "chunk").collect();
    assert_eq!(chunks.iter().map(|event| event["frames"].as_u64().unwrap()).sum::<u64>(), 6, "{chunks:?}");
    for event in chunks {
        assert_eq!((&event["streams"], &event["level"]), (&1.into(), &"debug".into()));
        let stages = ["population_ms", "decode_ms", "copy_ms"].map(|stage| event[stage].as_f64().unwrap());
        assert!(stages[1] > 0.0, "{event}");
    }
}

#[test]
fn every_field_is_in_the_table_for_operators() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/running.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n### Event fields\n").nth(1).unwrap().split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    // The names of a row stand in backticks.
    let described: BTreeSet<&str> = rows.flat_map(|names| names.split('`').step_by(2)).collect();
    let written: BTreeSet<&str> = Field::ALL.iter().map(|field| field.name()).chain(["time", "level"]).collect();
    assert_eq!(described, written);
}

#[test]
fn an_upstream_that_does_not_answer_is_told_at_the_start() {
    let lines = Lines::default();
    // Nobody listens at the port of a socket that is closed.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (log, upstream_of) = (lines.log(Level::Info), upstream(&format!("http://{closed}")));
    let server = Fixture::start(1, Settings { log, upstream: upstream_of, ..settings() });
    until("it is told", || metrics(&server).contains("\nmelisma_upstream_up 0\n"));
    server.join().unwrap();
    let warning = format!("warning: the upstream {closed} does not answer, so speech fails: ");
    assert_eq!(lines.all().iter().filter(|line| line.starts_with(&warning)).count(), 1, "{:?}", lines.all());
    let stand_in = StandIn::start(|_| Script::Silence).unwrap();
    let server = Fixture::start(1, Settings { upstream: upstream(&stand_in.url()), ..settings() });
    until("it answers", || metrics(&server).contains("\nmelisma_upstream_up 1\n"));
    assert!(stand_in.asked().is_empty());
}

#[test]
fn the_build_is_told_and_durations_are_by_route() {
    let build = BuildInfo::new(Some("4f2aa17d9c1e"));
    let server = Fixture::start(1, Settings { build, ..settings() });
    let health = server.get("/health").json();
    let status = server.get("/v1/status").json();
    assert_eq!((&health["status"], &health["commit"]), (&"ok".into(), &"4f2aa17d9c1e".into()));
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    assert!(health["features"].is_array() && status["build"]["version"] == health["version"], "{status}");
    server.get("/no/such/route");
    until("all requests have ended", || {
        let text = metrics(&server);
        assert!(
            text.contains("melisma_build_info{version=\"") && text.contains(",commit=\"4f2aa17d9c1e\"} 1\n"),
            "{text}"
        );
        ["/health", "/v1/status", "none"]
            .iter()
            .all(|route| text.contains(&format!("melisma_request_seconds_count{{route=\"{route}\"}} 1\n")))
    });
}
