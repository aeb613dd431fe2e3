//! Refusals reach clients that are still sending.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::LazyLock;
use std::time::Duration;

use melisma_server::{Guard, Keyring, Limits};

use crate::client::{Answer, Fixture};

const KEY: &str = "authorization: Bearer opensesame\r\n";

static SERVER: LazyLock<Fixture> = LazyLock::new(|| {
    let guard = Guard { keys: Keyring::of_key("a", "opensesame").unwrap(), ..Guard::default() };
    Fixture::new(1, guard, Limits { token_bytes: 4096, renders: 0, connections: 64, ..Limits::default() })
});

/// The body of a request, announced by its length or in chunks of 1000 bytes.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Length(usize),
    Chunks(usize),
}

impl Sent {
    fn header(self) -> String {
        match self {
            Self::Length(len) => format!("content-length: {len}\r\n"),
            Self::Chunks(_) => "transfer-encoding: chunked\r\n".to_owned(),
        }
    }

    fn body(self) -> Vec<u8> {
        match self {
            Self::Length(len) => vec![b' '; len],
            Self::Chunks(len) => {
                let chunk = [b"3e8\r\n", &[b' '; 1000][..], b"\r\n"].concat();
                [chunk.repeat(len / 1000), b"0\r\n\r\n".to_vec()].concat()
            }
        }
    }
}

/// Sends all of a request before it reads a byte, as Python's `http.client` does.
fn ask(line: &str, headers: &str, sent: Sent) -> Answer {
    let mut stream = SERVER.connect();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("{line} HTTP/1.1\r\n{headers}{}\r\n", sent.header());
    stream.write_all(head.as_bytes()).unwrap();
    for piece in sent.body().chunks(1 << 14) {
        stream.write_all(piece).unwrap_or_else(|error| panic!("{line}, {sent:?}: {error}"));
    }
    Answer::read(&mut stream)
}

#[test]
fn every_refusal_reaches_a_client_that_sends_all_first() {
    let own = "host: localhost\r\n";
    let known = format!("{own}{KEY}");
    for sent in [100_000, 5_000_000].into_iter().flat_map(|len| [Sent::Length(len), Sent::Chunks(len)]) {
        for (line, headers, status, code) in [
            ("POST /v1/decode", own, 401, "invalid_api_key"),
            ("POST /v1/decode", "host: evil.example\r\n", 403, "foreign_host"),
            ("POST /v1/nothing", &known, 404, "unknown_route"),
            ("POST /health", &known, 405, "method_not_allowed"),
            ("POST /v1/decode", &known, 413, "too_large"),
            ("GET /v1/synth.wav?preset=focus", &known, 503, "full"),
        ] {
            for _ in 0..3 {
                let answer = ask(line, headers, sent);
                assert_eq!((answer.status, &*answer.code()), (status, code), "{line}, {sent:?}");
                assert!(answer.is_whole && answer.headers.contains_key("x-request-id"), "{answer:?}");
            }
        }
    }
}

#[test]
fn a_refused_connection_gets_its_answer_too() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let server = Fixture::new(1, Guard::default(), limits);
    let mut held = server.connect();
    held.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut held).status, 200, "it has the only place");
    let head = "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n";
    for _ in 0..20 {
        let mut stream = server.connect();
        stream.write_all(&[head.as_bytes(), &[b' '; 100_000]].concat()).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!((answer.status, &*answer.code()), (503, "connections"));
        assert!(answer.is_whole && answer.headers.contains_key("x-request-id"), "{answer:?}");
    }
}

#[test]
fn a_message_that_is_too_long_is_named_to_a_client_that_sends_it_whole() {
    for _ in 0..5 {
        let mut socket = SERVER.socket("/v1/status", &[("authorization", "Bearer opensesame")]).ok().unwrap();
        socket.next_json();
        let frame = [&[0x81, 0xff][..], &(4u64 << 20).to_be_bytes(), &[0; 4], &vec![b'x'; 4 << 20]].concat();
        socket.stream.write_all(&frame).unwrap();
        socket.stream.shutdown(Shutdown::Write).unwrap();
        let closed = std::iter::from_fn(|| socket.next()).last();
        assert!(format!("{closed:?}").contains("Close"), "{closed:?}");
    }
}

#[test]
#[ignore = "extended: half a minute"]
fn a_client_that_never_ends_is_left() {
    let mut stream = SERVER.connect();
    stream.write_all(b"POST /v1/decode HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 99999999\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut stream).status, 403);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "the server has ended its half");
    // It takes no more than its bounds: sending fails at last.
    let refused = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(500));
        stream.write_all(b" ")
    });
    assert!(refused.take(240).any(|sent| sent.is_err()), "the server still reads after two minutes");
}
