//! Authentication, and what becomes of clients that are slow, too many or malicious.

use std::io::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use melisma_server::{ConnectionTimeouts, Guard, Keyring, Limits, Listen, ROUTES, Settings};

use crate::client::{self, Answer, Fixture, codes, request, tokens, until};

static KEYED: LazyLock<Fixture> = LazyLock::new(|| {
    let guard = Guard {
        keys: Keyring::of_key("a", "opensesame").unwrap(),
        allow_hosts: vec!["audio.example".to_owned()],
        allow_origins: vec!["https://app.example".to_owned()],
    };
    let limits =
        Limits { token_bytes: 4096, audio_bytes: 4096, list_bytes: 2048, message_bytes: 1024, ..Limits::default() };
    Fixture::new(2, guard, limits)
});

const KEY: (&str, &str) = ("authorization", "Bearer opensesame");

#[test]
fn every_route_but_the_public_ones_needs_the_key() {
    for route in ROUTES {
        let path = route.path.replace("{id}", "x").replace("{file}", "app.js");
        let without = KEYED.request(route.method, &path, &[], b"");
        let wrong = KEYED.request(route.method, &path, &[("authorization", "Bearer guess")], b"");
        let with = KEYED.request(route.method, &path, &[KEY], b"");
        let expected = if route.is_public { 200 } else { 401 };
        assert_eq!((without.status, wrong.status), (expected, expected), "{}", route.path);
        assert_ne!(with.status, 401, "{}", route.path);
        assert!(without.headers.contains_key("x-request-id"));
    }
    assert_eq!(KEYED.get("/v1/nothing").status, 401);
    let error = KEYED.get("/metrics").json();
    assert_eq!(error["error"]["type"], "authentication_error");
    assert_eq!(error["error"]["code"], "invalid_api_key");
}

#[test]
fn a_browser_sends_the_key_as_a_subprotocol_and_does_not_get_it_back() {
    assert_eq!(KEYED.socket("/v1/status", &[]).err().unwrap().status, 401);
    let protocols = [("sec-websocket-protocol", "melisma.v1, melisma.key.b3BlbnNlc2FtZQ")];
    let mut socket = KEYED.socket("/v1/status", &protocols).ok().unwrap();
    assert!(socket.head.contains("sec-websocket-protocol: melisma.v1\r\n"), "{}", socket.head);
    assert!(!socket.head.contains("melisma.key"));
    assert_eq!(socket.next_json()["type"], "status");
}

#[test]
fn the_status_comes_once_a_second_with_its_fields() {
    let server = Fixture::plain(2);
    let mut stream = server.socket("/v1/decode", &[]).ok().unwrap();
    stream.next_json();
    let start = Instant::now();
    let mut socket = server.socket("/v1/status", &[]).ok().unwrap();
    let first = socket.next_json();
    let fields = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let expected = [
        "batch_size",
        "build",
        "capacity",
        "capacity_streams",
        "device",
        "frame_seconds",
        "gpu",
        "memory_bytes",
        "missed_deadlines",
        "places",
        "queue",
        "queue_depth",
        "refusals",
        "refused",
        "speakers",
        "stages",
        "streams",
        "type",
    ];
    assert_eq!(fields(&first), expected);
    assert_eq!(fields(&first["streams"][0]), ["buffer_seconds", "id", "kind", "seconds"]);
    assert_eq!(first["streams"][0]["kind"], "decode");
    assert_eq!(fields(&first["stages"]), ["copy", "decode", "encode", "population", "send", "validation"]);
    assert_eq!(fields(&first["stages"]["copy"]), ["p50_seconds", "p99_seconds"]);
    assert!(first["memory_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(first["gpu"].is_null(), "the CPU has none");
    assert_eq!(fields(&socket.next_json()), expected);
    let pace = start.elapsed().as_secs_f64();
    assert!(pace >= 0.8, "{pace} s until the second report");
    // A machine that does something else may delay one, but not each.
    until("two reports within two seconds", || {
        let start = Instant::now();
        socket.next_json();
        start.elapsed() < Duration::from_secs(2)
    });
}

#[test]
fn foreign_names_and_pages_are_refused_before_the_body() {
    let refused = |headers: &[(&str, &str)]| {
        // The body never comes.
        let mut bytes = request("POST", "/v1/decode", &[headers, &[KEY]].concat(), b"");
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(b"content-length: 100\r\n\r\n");
        KEYED.raw(&bytes)
    };
    for headers in [
        &[("host", "evil.example")][..],
        &[("host", "127.0.0.1.evil.example")],
        &[("host", "localhost"), ("origin", "http://evil.example")],
        &[("host", "localhost"), ("origin", "null")],
    ] {
        let answer = refused(headers);
        assert_eq!(answer.status, 403, "{headers:?}");
        assert_eq!(answer.json()["error"]["type"], "permission_error");
    }
    for path in ["/health", "/ready"] {
        assert_eq!(KEYED.request("GET", path, &[("host", "evil.example")], b"").status, 403);
    }
    for host in ["localhost", "127.0.0.1", "audio.example"] {
        assert_eq!(KEYED.request("GET", "/health", &[("host", host)], b"").status, 200, "{host}");
    }
}

#[test]
fn a_listed_page_may_ask() {
    let asked = "authorization,content-type,x-stainless-lang,x-stainless-retry-count";
    let page = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", asked),
    ];
    let preflight = KEYED.request("OPTIONS", "/v1/decode", &page, b"");
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.headers["access-control-allow-origin"], "https://app.example");
    assert_eq!(preflight.headers["access-control-allow-headers"], asked);
    let foreign = KEYED.request("OPTIONS", "/v1/decode", &[("origin", "https://b.example"), page[2]], b"");
    assert_eq!((foreign.status, foreign.headers.get("access-control-allow-headers")), (403, None));
    let answer = KEYED.request("GET", "/health", &page[..1], b"");
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example");
    assert!(!KEYED.get("/health").headers.contains_key("access-control-allow-origin"));
}

#[test]
fn a_page_of_another_site_gets_nothing_without_cors() {
    let audio = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "audio"), KEY];
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), KEY];
    let listed = [audio[0], ("sec-fetch-mode", "cors"), ("origin", "https://app.example"), KEY];
    for route in ROUTES.iter().filter(|route| route.method == "GET") {
        let path = route.path.replace("{id}", "x").replace("{file}", "app.js");
        let status = |headers: &[(&str, &str)]| {
            let answer = KEYED.request("GET", &path, headers, b"");
            assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin", "{path}");
            answer.status
        };
        assert_eq!(status(&audio), 403, "{path}");
        assert_eq!(status(&link), if path == "/" { 200 } else { 403 }, "{path}");
        assert_ne!(status(&listed), 403, "{path}");
        assert_ne!(status(&[KEY]), 403, "{path}");
    }
    assert_eq!(KEYED.raw(b"nonsense\r\n\r\n").headers["cross-origin-resource-policy"], "same-origin");
}

#[test]
fn wrong_methods_and_strange_paths_are_named() {
    let asked = |method: &str, path: &str| KEYED.request(method, path, &[KEY], b"");
    let post = asked("POST", "/health");
    assert_eq!((post.status, post.headers["allow"].as_str()), (405, "GET, HEAD"));
    assert_eq!(asked("DELETE", "/v1/decode").headers["allow"], "GET, POST");
    let (get, head) = (asked("GET", "/health"), KEYED.head("/health", KEY));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.ends_with("\r\n\r\n") && head.contains(&format!("content-length: {}\r\n", get.body.len())), "{head}");
    assert!(KEYED.head("/v1/synth.wav", KEY).starts_with("HTTP/1.1 405"));
    for path in
        ["/v1", "/page/", "/page/x", "/v1/decode/", "//health", "/../etc/passwd", "/v1/ledger/..%2f..%2fetc", "/%00"]
    {
        assert_eq!(asked("GET", path).status, 404, "{path}");
    }
    assert_eq!(asked("GET", "/v1/decode").status, 426);
    let openapi = asked("GET", "/openapi.json");
    assert_eq!((openapi.status, &openapi.json()["openapi"]), (200, &"3.1.0".into()));
}

#[test]
fn unknown_parameters_are_refused_with_those_that_exist() {
    let lax = ["/", "/page/{file}", "/v1/audio/speech", "/v1/audio/voices", "/v1/models"];
    for route in ROUTES {
        let path = route.path.replace("{id}", "x").replace("{file}", "app.js");
        let known = if path.starts_with("/v1/synth") { "preset=focus&" } else { "" };
        let answer = KEYED.request(route.method, &format!("{path}?{known}chnk=2"), &[KEY], b"");
        if lax.contains(&route.path) {
            assert_ne!(answer.code(), "invalid_parameter", "{}", route.path);
            continue;
        }
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_parameter"), "{} {}", route.method, path);
        let error = answer.json()["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(error["param"] == "chnk" && message.contains("`chnk`; this route takes "), "{path}: {message}");
    }
    let decode = KEYED.request("POST", "/v1/decode?chnk=2", &[KEY], b"").json()["error"]["message"].to_string();
    assert!(decode.contains("format") && decode.contains("noise") && decode.contains("chunk"), "{decode}");
}

#[test]
fn what_is_too_large_is_refused_while_it_is_read() {
    let large = "x ".repeat(100_000);
    let answer = KEYED.request("POST", "/v1/decode", &[KEY], large.as_bytes());
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    let list = format!("[[{}", "1,".repeat(1500));
    let json = [KEY, ("content-type", "application/json")];
    assert_eq!(KEYED.request("POST", "/v1/decode", &json, list.as_bytes()).status, 413);
    let clip = melisma::audio::Clip::mono(24_000, vec![0.0; 24_000]);
    let audio = melisma::audio::wav::encode(&clip, melisma::audio::wav::SampleFormat::S16).unwrap();
    assert_eq!(KEYED.request("POST", "/v1/encode", &[KEY], &audio).status, 413);
    let mut socket = KEYED.socket("/v1/decode", &[KEY]).ok().unwrap();
    socket.next_json();
    socket.say(&"y".repeat(1025));
    let closed = std::iter::from_fn(|| socket.next()).last();
    let closed = format!("{closed:?}");
    assert!(closed.contains("1009"), "{closed}");
    let headers = format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(100_000));
    assert_eq!(KEYED.raw(headers.as_bytes()).status, 431);
    let many = format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert_eq!(KEYED.raw(many.as_bytes()).status, 431);
}

#[test]
fn smuggled_requests_are_refused() {
    let lines = |lines: &str| KEYED.raw(format!("POST /v1/decode HTTP/1.1\r\n{lines}\r\n\r\n").as_bytes()).status;
    let key = "host: localhost\r\nauthorization: Bearer opensesame\r\n";
    // Chunks win over a length: nothing behind the last chunk is taken for a body.
    let both = KEYED.raw(
        format!("POST /v1/decode HTTP/1.1\r\n{key}content-length: 50\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!((both.status, both.code().as_str()), (400, "no_frames"));
    assert_eq!(lines(&format!("{key}content-length: 5\r\ncontent-length: 6")), 400);
    assert_eq!(lines(&format!("{key}host: evil.example")), 400);
    assert_eq!(lines("authorization: Bearer opensesame"), 400);
    assert_eq!(lines(&format!("{key}transfer-encoding: chunked, x")), 501);
    for bytes in [&b"\0\0\0\0\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n", &[0xff; 64]] {
        assert_eq!(KEYED.raw(bytes).status, 400, "{bytes:?}");
    }
}

/// Starts a server with short limits of time.
fn hasty() -> Fixture {
    let ms = Duration::from_millis;
    let limits = Limits {
        // Long enough for a client that a busy machine stops between two steps.
        timeouts: ConnectionTimeouts { header: ms(1_500), idle: ms(1_500), total: ms(600_000) },
        stall_timeout: ms(200),
        ping: ms(60),
        ..Limits::default()
    };
    Fixture::new(2, Guard::default(), limits)
}

#[test]
fn slow_and_silent_clients_lose_their_connections() {
    let server = hasty();
    let ended_within = |bytes: &[u8], limit: Duration| {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        let start = Instant::now();
        let answer = Answer::read(&mut stream);
        assert!(start.elapsed() < limit, "{answer:?} after {:?}", start.elapsed());
        answer.status
    };
    // Far below the limit of the whole.
    let limit = Duration::from_secs(120);
    assert_eq!(ended_within(b"", limit), 0, "no request");
    assert!(matches!(ended_within(b"GET /health HTTP/1.1\r\nhost: lo", limit), 0 | 408), "half a header");
    let half = b"POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n<custom";
    assert_eq!(ended_within(half, limit), 408, "half a body");
    assert_eq!(ended_within(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", limit), 200, "kept open");
    let mut socket = server.socket("/v1/decode", &[]).ok().unwrap();
    let start = Instant::now();
    let said = std::iter::from_fn(|| socket.next()).count();
    assert!(said > 1 && start.elapsed() < limit, "{said} messages, pings among them");
    until("the stream is freed", || server.get("/v1/status").json()["streams"] == serde_json::json!([]));
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let hour = Duration::from_secs(3_600);
    let timeouts = ConnectionTimeouts { header: hour, idle: hour, total: hour };
    let server = Fixture::new(2, Guard::default(), Limits { connections: 3, timeouts, ..Limits::default() });
    // They are accepted in the order in which they come.
    let held: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let answer = server.get("/health");
    assert_eq!((answer.status, answer.code().as_str()), (503, "connections"));
    drop(held);
    until("there is room again", || server.get("/health").status == 200);
}

#[test]
fn a_draining_server_finishes_its_streams_and_ends() {
    let server = Fixture::plain(2);
    let codes = codes(1, 5);
    let mut socket = server.socket("/v1/decode", &[]).ok().unwrap();
    socket.next_json();
    server.drain();
    while std::net::TcpStream::connect(server.address).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    socket.say(&tokens(&codes));
    socket.say(r#"{"type":"end"}"#);
    let messages: Vec<_> = std::iter::from_fn(|| socket.next()).collect();
    assert!(format!("{:?}", messages.last()).contains("1000"), "{messages:?}");
    server.join().unwrap();
}

#[test]
fn an_address_that_others_reach_needs_a_key() {
    let settings =
        |guard| Settings { listen: Listen::Address("0.0.0.0:0".parse().unwrap()), guard, ..client::settings() };
    let error = melisma_server::Server::bind(settings(Guard::default())).unwrap_err();
    assert!(error.to_string().contains("needs a key"), "{error}");
    let guard = Guard { keys: Keyring::of_key("a", "k").unwrap(), ..Guard::default() };
    assert!(melisma_server::Server::bind(settings(guard)).is_ok());
}
