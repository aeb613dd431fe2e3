//! Clients with keys of their own: names, limits, ends, scopes, and a file that changes.

use std::sync::{Arc, Mutex};

use melisma_server::{Guard, Keyring, Level, Log, Settings};

use crate::client::{Fixture, Socket, codes, settings, tokens, until};

const FILE: &str = "ann: key-of-ann streams=1\nbo: key-of-bo\ncy: key-of-cy until=2020-01-01\n\
                    scraper: key-of-scraper scope=metrics\n";

/// A server with the keys of [`FILE`], and all that it logs.
fn server() -> (Fixture, Keyring, Arc<Mutex<String>>) {
    let keys = Keyring::parse("file", FILE).unwrap();
    let lines = Arc::<Mutex<String>>::default();
    let seen = Arc::clone(&lines);
    let log = Log::new(Level::Debug, move |_, line| *seen.lock().unwrap() += &format!("{line}\n"));
    let guard = Guard { keys: keys.clone(), ..Guard::default() };
    (Fixture::start(4, Settings { guard, log, ..settings() }), keys, lines)
}

fn header(name: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer key-of-{name}"))
}

fn open(server: &Fixture, name: &str) -> Result<Socket, (u16, String)> {
    let (field, key) = header(name);
    let opened = server.socket("/v1/decode", &[(field, &key)]);
    opened.map_err(|answer| (answer.status, answer.code()))
}

fn metric(server: &Fixture, row: &str) -> Option<u64> {
    let (field, key) = header("bo");
    let text = String::from_utf8(server.request("GET", "/metrics", &[(field, &key)], b"").body).unwrap();
    text.lines().find_map(|line| line.strip_prefix(row)?.trim().parse().ok())
}

#[test]
fn a_limit_refuses_with_429_and_a_place_comes_back() {
    let (server, _, lines) = server();
    let first = open(&server, "ann").ok().unwrap();
    let (field, key) = header("ann");
    for path in ["/v1/decode", "/v1/synth?preset=focus"] {
        let refused = server.socket(path, &[(field, &key)]).err().unwrap();
        assert_eq!((refused.status, &*refused.code()), (429, "key_streams"), "{path}");
        assert_eq!(refused.headers["retry-after"], "1");
        let error = refused.json()["error"].clone();
        assert_eq!(error["message"], "the API key `ann` has 1 of 1 streams in use");
        assert_eq!(error["type"], "rate_limit_error");
    }
    assert_eq!(
        server.request("GET", "/v1/status", &[(field, &key)], b"").status,
        200,
        "requests that open no stream go on"
    );
    let others: Vec<_> = (0..2).map(|_| open(&server, "bo").ok().unwrap()).collect();
    assert_eq!(metric(&server, "melisma_key_streams{key=\"ann\"} "), Some(1));
    assert_eq!(metric(&server, "melisma_key_streams{key=\"bo\"} "), Some(2));
    assert_eq!(metric(&server, "melisma_key_refused_total{key=\"ann\"} "), Some(2));
    assert_eq!(metric(&server, "melisma_key_requests_total{key=\"ann\"} "), Some(4));
    drop((first, others));
    until("the place is free", || metric(&server, "melisma_key_streams{key=\"ann\"} ") == Some(0));
    // The place of an answer is free before its client has seen the end.
    for _ in 0..20 {
        let answer = server.request("POST", "/v1/decode", &[(field, &key)], tokens(&codes(1, 3)).as_bytes());
        assert_eq!((answer.status, answer.is_whole), (200, true), "{:?}", answer.code());
    }
    server.join().unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.contains(r#""key":"ann""#) && lines.contains(r#""error":"key_streams""#), "{lines}");
    assert!(!lines.contains("key-of-"), "{lines}");
}

#[test]
fn a_key_ends_with_its_date_and_its_name_is_logged() {
    let (server, _, lines) = server();
    let (status, code) = open(&server, "cy").err().unwrap();
    assert_eq!((status, &*code), (401, "expired_api_key"));
    let (field, key) = header("cy");
    let answer = server.request("GET", "/v1/status", &[(field, &key)], b"");
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    assert_eq!(answer.json()["error"]["message"], "the API key `cy` was valid until 2020-01-01 (UTC)");
    assert_eq!(open(&server, "dee").err().unwrap(), (401, "invalid_api_key".to_owned()));
    server.join().unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.contains(r#""error":"expired_api_key""#) && lines.contains(r#""key":"cy""#), "{lines}");
}

#[test]
fn a_key_for_metrics_opens_nothing_else() {
    let (server, keys, lines) = server();
    let (field, key) = header("scraper");
    let ask = |method: &str, path: &str| server.request(method, path, &[(field, &key)], b"");
    for (method, path) in [
        ("GET", "/metrics"),
        ("HEAD", "/metrics"),
        ("GET", "/v1/status"),
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/v1/presets"),
    ] {
        assert_eq!(ask(method, path).status, 200, "{method} {path}");
    }
    assert!(server.socket("/v1/status", &[(field, &key)]).is_ok());
    for (method, path) in [
        ("POST", "/v1/decode"),
        ("POST", "/v1/audio/speech"),
        ("GET", "/v1/models"),
        ("GET", "/v1/synth.wav?preset=focus&seconds=1"),
        ("GET", "/v1/ledger/x"),
        ("POST", "/metrics"),
        ("GET", "/nothing"),
    ] {
        let refused = ask(method, path);
        assert_eq!((refused.status, &*refused.code()), (403, "key_scope"), "{method} {path}");
        let error = refused.json()["error"].clone();
        assert_eq!(error["message"], "the API key `scraper` is for /metrics and /v1/status only");
        assert_eq!(error["type"], "permission_error");
    }
    assert_eq!(open(&server, "scraper").err().unwrap(), (403, "key_scope".to_owned()));
    assert_eq!(metric(&server, "melisma_refused_requests_total{code=\"key_scope\"} "), Some(8));
    assert_eq!(metric(&server, "melisma_key_requests_total{key=\"scraper\"} "), Some(12));
    keys.replace(&Keyring::parse("file", "scraper: key-of-scraper\n").unwrap());
    assert_eq!(ask("GET", "/v1/models").status, 200);
    server.join().unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.contains(r#""error":"key_scope""#) && lines.contains(r#""key":"scraper""#), "{lines}");
    assert!(!lines.contains("key-of-"), "{lines}");
}

#[test]
fn new_keys_hold_at_once_and_open_streams_go_on() {
    let (server, keys, _) = server();
    let mut stream = open(&server, "ann").ok().unwrap();
    stream.next_json();
    keys.replace(&Keyring::parse("file", "ann: key-of-dee streams=1\nbo: key-of-bo\n").unwrap());
    assert_eq!(open(&server, "ann").err().unwrap().0, 401);
    assert_eq!(open(&server, "dee").err().unwrap().0, 429, "the open stream counts");
    stream.say(&tokens(&codes(1, 4)));
    stream.say(r#"{"type":"end"}"#);
    let messages: Vec<_> = std::iter::from_fn(|| stream.next()).collect();
    assert!(format!("{:?}", messages.last()).contains("1000"), "{messages:?}");
    until("the place is free", || open(&server, "dee").is_ok());
    assert_eq!(metric(&server, "melisma_key_requests_total{key=\"cy\"} "), None);
}
