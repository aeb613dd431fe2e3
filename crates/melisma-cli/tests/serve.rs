//! `melisma serve` from outside: the address, the samples, keys and signals.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod melisma;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use melisma::Sandbox;

/// A server that is ended with the test.
struct Served {
    child: Child,
    address: String,
    events: BufReader<ChildStderr>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut events = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        events.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        let served = Self { child, address, events };
        let start = Instant::now();
        while !served.ask("GET", "/ready", "", b"").starts_with(b"HTTP/1.1 200") {
            assert!(start.elapsed() < Duration::from_secs(30), "not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let len = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        write!(stream, "{head}{headers}content-length: {len}\r\n\r\n").unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    fn signal(&self) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }
}

/// The bytes of a chunked body.
fn body(answer: &[u8]) -> Vec<u8> {
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let (mut rest, mut body) = (&answer[start..], Vec::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + len]);
        rest = &rest[end + 4 + len..];
    }
}

#[test]
fn the_samples_are_those_of_decode() {
    let sandbox = Sandbox::new();
    let tokens: String = (0..6)
        .flat_map(|frame| (0..7).map(move |slot| format!("<custom_token_{}>", 10 + 4096 * slot + 31 * frame + slot)))
        .collect();
    std::fs::write(sandbox.path("tokens.txt"), &tokens).unwrap();
    let decoded = sandbox.run(&["decode", "tokens.txt", "-o", "a.wav", "--noise", "seed:3", "--device", "cpu"]);
    assert_eq!(decoded.code, 0, "{}", decoded.stderr);
    let expected = std::fs::read(sandbox.path("a.wav")).unwrap();
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "2", "--device", "cpu"]));
    let answer = served.ask("POST", "/v1/decode?noise=seed:3", "", tokens.as_bytes());
    assert_eq!(body(&answer)[44..], expected[44..]);
}

#[test]
fn a_key_from_the_environment_is_needed_and_a_signal_drains() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]);
    command.env("MELISMA_API_KEY", "opensesame");
    let mut served = Served::start(command);
    assert!(served.ask("GET", "/v1/status", "", b"").starts_with(b"HTTP/1.1 401"));
    let status = served.ask("GET", "/v1/status", "authorization: Bearer opensesame\r\n", b"");
    assert!(status.starts_with(b"HTTP/1.1 200"));
    served.signal();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    let mut events = String::new();
    served.events.read_to_string(&mut events).unwrap();
    assert!(events.contains("draining"), "{events}");
    assert!(events.contains(r#""event":"request""#) && !events.contains("opensesame"), "{events}");
}

#[test]
fn a_second_signal_ends_open_streams() {
    let sandbox = Sandbox::new();
    let mut served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    let mut open = TcpStream::connect(&served.address).unwrap();
    write!(open, "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    served.signal();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(served.child.try_wait().unwrap(), None, "it waits for the open request");
    served.signal();
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
}

#[test]
fn what_cannot_be_served_is_an_error() {
    let sandbox = Sandbox::new();
    let refused = |args: &[&str], said: &str| {
        let ran = sandbox.run(&[&["serve", "--port", "0"], args].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    };
    refused(&["--host", "0.0.0.0"], "there is no key");
    refused(&["--allow-origin", "example.com"], "expected a scheme and a host");
    refused(&["--api-key-file", "absent"], "absent");
    refused(&["--model", "absent"], "absent");
    std::fs::write(sandbox.path("key"), "two words\n").unwrap();
    refused(&["--api-key-file", "key"], "without spaces");
}
