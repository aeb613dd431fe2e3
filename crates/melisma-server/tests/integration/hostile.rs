//! Clients that are slow, half gone or gone, and messages that nobody should send.

use std::io::Write;
use std::net::Shutdown;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use melisma::snac::Noise;
use melisma_server::websocket::Message;
use melisma_server::{Guard, Level, Limits, Log, Settings};

use crate::client::{Answer, Fixture, codes, read_head, samples, settings, tokens};

static SERVER: LazyLock<Fixture> = LazyLock::new(|| {
    let limits = Limits { stall_timeout: Duration::from_millis(300), message_bytes: 1 << 20, ..Limits::default() };
    Fixture::new(32, Guard::default(), limits)
});

fn metrics() -> String {
    String::from_utf8(SERVER.get("/metrics").body).unwrap()
}

/// Waits until `is_so`. The limit is far beyond what a busy machine takes.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_does_not_receive_is_dropped_and_delays_nobody() {
    let mut slow = SERVER.socket("/v1/decode?sample_format=f32", &[]).ok().unwrap();
    // Far more audio than the sockets' buffers hold.
    let text = tokens(&codes(1, 250));
    for _ in 0..12 {
        slow.say(&text);
    }
    let codes = codes(2, 12);
    let answer = SERVER.post("/v1/decode?format=pcm", tokens(&codes).as_bytes());
    assert_eq!((answer.status, answer.is_whole), (200, true));
    assert_eq!(answer.body.len(), 2 * samples(&codes, &Noise::default()).len());
    wait("the slow client is still there", || metrics().contains("dropped_streams_total{reason=\"slow_client\"} "));
    drop(slow);
}

#[test]
fn a_client_that_closes_its_half_loses_its_stream() {
    let server = Fixture::plain(1);
    let is_free = || server.socket("/v1/decode", &[]).is_ok();
    let mut socket = server.socket("/v1/decode", &[]).ok().unwrap();
    socket.next_json();
    socket.say(&tokens(&codes(3, 4)));
    assert!(!is_free());
    socket.stream.shutdown(Shutdown::Write).unwrap();
    wait("the half-open WebSocket holds its stream", is_free);
    let head = "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    let begun = || {
        let mut stream = server.connect();
        stream.write_all((head.to_owned() + &tokens(&codes(3, 6))).as_bytes()).unwrap();
        let (head, _) = read_head(&mut stream);
        head.starts_with("HTTP/1.1 200").then_some(stream)
    };
    // The WebSocket of the last question may not have left yet.
    let half_open = std::iter::repeat_with(begun).take(1_000).flatten().next().expect("a free place");
    half_open.shutdown(Shutdown::Write).unwrap();
    wait("the half-open request holds its stream", is_free);
}

#[test]
fn a_client_that_ends_its_sending_gets_its_answer() {
    let codes = codes(5, 12);
    let text = tokens(&codes);
    for version in ["HTTP/1.1", "HTTP/1.0"] {
        let head = format!("POST /v1/decode?format=pcm {version}\r\nhost: localhost\r\ncontent-length: {}", text.len());
        let mut stream = SERVER.connect();
        stream.write_all(format!("{head}\r\n\r\n{text}").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!((answer.status, answer.is_whole), (200, true), "{version}");
        assert_eq!(answer.body.len(), 2 * samples(&codes, &Noise::default()).len(), "{version}");
    }
}

/// The code with which the server closes after some bytes.
fn closed_after(path: &str, bytes: &[u8]) -> Option<u16> {
    let mut socket = SERVER.socket(path, &[]).ok().unwrap();
    socket.stream.write_all(bytes).unwrap();
    std::iter::from_fn(|| socket.next()).find_map(|message| match message {
        Message::Close(code) => Some(code.map_or(0, |(code, _)| code)),
        _ => None,
    })
}

#[test]
fn broken_frames_close_the_connection_with_their_code() {
    let masked = |first: u8, payload: &[u8]| [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat();
    for path in ["/v1/decode", "/v1/synth?preset=focus"] {
        assert_eq!(closed_after(path, &[0x81, 0x01, b'x']), Some(1002), "no mask");
        assert_eq!(closed_after(path, &masked(0xf1, b"x")), Some(1002), "reserved bits");
        assert_eq!(closed_after(path, &masked(0x81, b"\xff\xfe")), Some(1007), "not UTF-8");
        assert_eq!(closed_after(path, &[0x81, 0xff, 0, 0, 1, 0, 0, 0, 0, 0]), Some(1009), "a terabyte");
        let part = Message::Text("1 ".repeat(400_000)).frame(Some([1, 2, 3, 4]));
        let mut parts = [part.clone(), part].concat();
        let second = parts.len() / 2;
        // The first part goes on, and the second continues it.
        (parts[0], parts[second]) = (0x01, 0x80);
        assert_eq!(closed_after(path, &parts), Some(1009), "fragments that are too long together");
        assert_eq!(closed_after(path, &masked(0x82, b"x")), Some(1008), "a binary message");
    }
}

#[test]
fn strange_text_is_not_a_message() {
    let code = |text: &str| {
        let mut socket = SERVER.socket("/v1/decode", &[]).ok().unwrap();
        socket.next_json();
        socket.say(text);
        socket.say(r#"{"type":"end"}"#);
        let error = socket.next_json();
        assert_eq!(error["type"], "error", "{text:?}");
        error["error"]["code"].as_str().unwrap().to_owned()
    };
    for text in [r#"{"type":"#, "[[[", "\u{feff}{}", "\u{1F600}\u{200d}\u{0}", r#"{"type":{"a":1}}"#, "null"] {
        assert!(["no_frames", "invalid_content"].contains(&code(text).as_str()), "{text:?}: {}", code(text));
    }
    assert_eq!(code(r#"{"type":"End"}"#), "unknown_message");
    assert_eq!(code(&format!(r#"{{"type":"{}"}}"#, "\u{1F600}".repeat(1_000))), "unknown_message");
    assert_eq!(code(&("[".repeat(100_000) + "1")), "invalid_content");
}

#[test]
fn doubtful_headers_are_refused() {
    let status = |lines: &str, body: &str| {
        let head = format!("POST /v1/decode HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n\r\n{body}");
        SERVER.raw(head.as_bytes()).status
    };
    for lines in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "content-length: -1",
        "content-length: 0x5",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: xchunked",
        "content-length : 5",
        "x: a\r\n folded",
        "x: \0",
    ] {
        let status = status(lines, "hello");
        assert!(matches!(status, 400 | 501), "{lines:?}: {status}");
    }
    for length in ["9223372036854775808", "18446744073709551615", "99999999999999999999"] {
        assert_eq!(status(&format!("content-length: {length}"), "hello"), 413, "{length}");
    }
    assert_eq!(status("transfer-encoding: gzip, chunked", "0\r\n\r\n"), 501);
    // A chunk's size that overflows, and one that is not a number.
    for size in ["fffffffffffffffff", "-1", "0x1", "1;\n"] {
        let status = status("transfer-encoding: chunked", &format!("{size}\r\na\r\n0\r\n\r\n"));
        assert_eq!(status, 400, "{size:?}");
    }
}

#[test]
fn what_is_no_request_has_an_answer_a_count_and_an_event() {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&events);
    let log = Log::new(Level::Info, move |_, line| seen.lock().unwrap().push(line.to_owned()));
    let server = Fixture::start(1, Settings { log, ..settings() });
    let line = "GET /health HTTP/1.1\r\nhost: localhost\r\n";
    let long = format!("{line}x: {}\r\n\r\n", "y".repeat(40_000));
    let many = format!("{line}{}\r\n", "a: b\r\n".repeat(64));
    let coded = format!("{line}transfer-encoding: gzip, chunked\r\n\r\n");
    for (bytes, status, code) in [
        ("GET\r\n\r\n", 400, "broken_request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "broken_request"),
        (&long, 431, "large_head"),
        (&many, 431, "large_head"),
        (&coded, 501, "transfer_encoding"),
    ] {
        // A good request before it has its answer first.
        let both = server.raw((format!("{line}\r\n") + bytes).as_bytes());
        assert_eq!(both.status, 200, "{code}");
        let answer = server.raw(bytes.as_bytes());
        assert_eq!((answer.status, &*answer.code()), (status, code));
        assert!(answer.is_whole && answer.json()["error"]["message"].is_string(), "{answer:?}");
        let (id, told) = (&answer.headers["x-request-id"], format!("\"status\":{status}"));
        let is_it = |line: &String| line.contains(id) && line.contains(&told);
        wait("there is no event", || events.lock().unwrap().iter().any(is_it));
        let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
        assert!(metrics.contains(&format!("melisma_requests_total{{route=\"none\",status=\"{status}\"}} ")));
    }
    let full = format!("{line}x: {}\r\n\r\n", "y".repeat((32 << 10) - line.len() - 7));
    assert_eq!((full.len(), server.raw(full.as_bytes()).status), (32 << 10, 200));
    assert_eq!(server.raw(full.replace("x: ", "x: y").as_bytes()).status, 431);
}

#[test]
fn a_handshake_has_to_be_one() {
    let upgrade = "host: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n";
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for path in ["/v1/status", "/v1/decode", "/v1/synth?preset=focus"] {
        let code = |version: &str, rest: &str| {
            let answer = SERVER.raw(format!("GET {path} {version}\r\n{upgrade}{rest}").as_bytes());
            (answer.status, answer.code())
        };
        assert_eq!(code("HTTP/1.0", &format!("{key}\r\n")), (400, "websocket_handshake".to_owned()));
        let body = format!("{key}content-length: 5\r\n\r\nhello");
        assert_eq!(code("HTTP/1.1", &body), (400, "websocket_handshake".to_owned()));
        let wrong = "sec-websocket-key: !!!!!!!!!!!!!!!!!!!!!!==\r\nconnection: close\r\n\r\n";
        assert_eq!(code("HTTP/1.1", wrong), (400, "websocket_key".to_owned()));
    }
}

#[test]
fn what_follows_a_doubtful_length_is_not_a_request() {
    // To a proxy that counts by length, the second request is a part of the first one's body.
    let smuggled = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n";
    let length = format!("content-length: {}\r\n\r\n0\r\n\r\n{smuggled}", 5 + smuggled.len());
    let answer = SERVER.raw((head.to_owned() + &length).as_bytes());
    assert_eq!(answer.status, 400);
    assert!(!String::from_utf8_lossy(&answer.body).contains("melisma_requests_total"));
}
