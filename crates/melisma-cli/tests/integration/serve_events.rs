//! `melisma serve` when nobody reads its events.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::Sandbox;

/// Far more than a pipe of 64 KiB and the server's queue hold.
const N_REQUESTS: usize = 4_000;

/// A server whose events are read up to its address, and no further.
struct Unread {
    child: Child,
    address: String,
    events: ChildStderr,
}

impl Drop for Unread {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Unread {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut events = child.stderr.take().unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            events.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        let server = Self { child, address, events };
        let start = Instant::now();
        while !server.ask("/ready", 1).starts_with("HTTP/1.1 200") {
            assert!(start.elapsed() < Duration::from_secs(60), "not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// The answers to `n` requests for one path over one connection.
    fn ask(&self, path: &str, n: usize) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut sending = stream.try_clone().unwrap();
        let one = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let last = one.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
        let sender = std::thread::spawn(move || sending.write_all((one.repeat(n - 1) + &last).as_bytes()).unwrap());
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        sender.join().unwrap();
        answers
    }

    /// Asks until events are dropped.
    fn fill(&self) {
        let answers = self.ask("/v1/models", N_REQUESTS);
        assert_eq!(answers.matches("HTTP/1.1 200").count(), N_REQUESTS);
        let metrics = self.ask("/metrics", 1);
        let dropped = metrics.lines().find_map(|line| line.strip_prefix("melisma_dropped_events_total ")).unwrap();
        assert!(dropped.parse::<usize>().unwrap() > 0, "the pipe took them all");
    }

    fn signal(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
    }

    fn code(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_server_whose_events_nobody_reads_answers_and_drains() {
    let sandbox = Sandbox::new();
    let mut server = Unread::start(&sandbox);
    server.fill();
    server.signal();
    assert_eq!(server.code(), Some(0));
}

#[test]
fn a_second_signal_ends_it() {
    let sandbox = Sandbox::new();
    let mut server = Unread::start(&sandbox);
    server.fill();
    // A stream that its client does not end.
    let mut open = TcpStream::connect(&server.address).unwrap();
    let upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n";
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    write!(open, "GET /v1/decode HTTP/1.1\r\nhost: localhost\r\n{upgrade}{key}\r\n").unwrap();
    let mut status = [0; 12];
    open.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 101");
    server.signal();
    // The first signal has arrived once the port is closed; two signals at a time would be one.
    while TcpStream::connect(&server.address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    server.signal();
    assert_eq!(server.code(), Some(143));
}

#[test]
fn the_events_that_were_dropped_are_counted_when_somebody_reads_again() {
    let sandbox = Sandbox::new();
    let mut server = Unread::start(&sandbox);
    server.fill();
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !text.contains(r#""event":"dropped""#) {
        let n = server.events.read(&mut piece).unwrap();
        assert!(n > 0, "{text}");
        text += &String::from_utf8_lossy(&piece[..n]);
    }
    server.signal();
    assert_eq!(server.code(), Some(0));
}
