//! 60,000 requests of every good and bad kind against one server, over loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sandbox::Sandbox;
use crate::serve::tokens;

const FEW: usize = 20_000;
const MANY: usize = 60_000;
const N_CLIENTS: usize = 8;
/// How much the server's memory may grow from the few to the many.
const GROWTH_BYTES: f64 = 10e6;
const KEY: &str = "authorization: Bearer opensesame\r\n";
/// What a server that is asked nonsense may say.
const STATUSES: [u16; 18] = [0, 101, 200, 204, 304, 400, 401, 403, 404, 405, 408, 413, 415, 426, 431, 501, 502, 503];

/// Numbers that are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

struct Served {
    child: Child,
    address: String,
    events: Option<JoinHandle<String>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["serve", "--port", "0", "--max-streams", "4", "--device", "cpu"]);
        command.env("MELISMA_API_KEY", "opensesame");
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        // All lines are read; those that are not events are collected.
        let events = std::thread::spawn(move || {
            let lines = lines.lines().map_while(std::io::Result::ok).filter(|line| !line.starts_with('{'));
            lines.collect::<Vec<_>>().join("\n")
        });
        let served = Self { child, address, events: Some(events) };
        wait("it is not ready", || served.ask("/ready").starts_with("HTTP/1.1 200"));
        served
    }

    fn ask(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{KEY}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn metric(&self, name: &str) -> f64 {
        let metrics = self.ask("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    }

    /// Memory when all that was asked is over.
    fn settled_bytes(&self) -> f64 {
        let none = ["melisma_streams", "melisma_decode_streams", "melisma_synth_streams", "melisma_encode_clips"];
        wait("places are taken for good", || {
            none.iter().all(|name| self.metric(name) == 0.0) && self.metric("melisma_connections") == 1.0
        });
        self.metric("melisma_resident_bytes")
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A good request with a body.
fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{KEY}");
    [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n").into_bytes()
}

/// One of the requests that a server has to expect.
fn good(numbers: &mut Numbers) -> Vec<u8> {
    let paths = ["/", "/page/app.js", "/health", "/ready", "/openapi.json", "/v1/status", "/v1/presets", "/v1/models"];
    match numbers.below(6) {
        0 => post("/v1/decode?format=pcm", tokens(2).concat().as_bytes()),
        1 => post("/v1/decode?format=mp3", tokens(1).concat().as_bytes()),
        2 => get("/v1/synth.wav?preset=focus&seconds=0.05", KEY),
        3 => post("/v1/mel", &numbers.bytes(300)),
        _ => get(numbers.pick(&paths), KEY),
    }
}

/// The start of a WebSocket, and frames of which most are broken.
fn socket(numbers: &mut Numbers) -> Vec<u8> {
    let path = numbers.pick(&["/v1/decode", "/v1/status", "/v1/synth?preset=focus", "/v1/nothing"]);
    let upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n";
    let key = numbers.pick(&["dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ==", "short", ""]);
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{upgrade}{KEY}sec-websocket-key: {key}\r\n\r\n");
    let text = numbers.pick(&["<custom_token_10>", r#"{"type":"end"}"#, r#"{"type":"stop"}"#, "[[", "{}"]);
    let frame = [&[0x81, 0x80 | text.len() as u8, 0, 0, 0, 0], text.as_bytes()].concat();
    let len = numbers.below(40);
    [head.into_bytes(), if numbers.below(2) == 0 { frame } else { numbers.bytes(len) }].concat()
}

/// What a client sends, and how.
struct Act {
    bytes: Vec<u8>,
    /// How much of it is sent.
    n_sent: usize,
    /// Pieces that it is sent in.
    n_pieces: usize,
    reads: bool,
}

fn act(numbers: &mut Numbers) -> Act {
    let (mut n_pieces, mut reads, mut share) = (1, true, 1.0);
    let bytes = match numbers.below(14) {
        0..=2 => good(numbers),
        3 => {
            let len = 1 + numbers.below(600);
            numbers.bytes(len)
        }
        // Half of it, and then the client leaves or waits for an answer.
        4 => {
            share = numbers.below(100) as f64 / 100.0;
            reads = false;
            good(numbers)
        }
        5 => {
            reads = false;
            good(numbers)
        }
        6 => get("/v1/status", numbers.pick(&["", "authorization: Bearer guess\r\n", "authorization: Basic eDp5\r\n"])),
        7 => {
            let method = numbers.pick(&["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "HEAD", "PATCH"]);
            let path = numbers.pick(&["/", "/v1/decode", "/v1/synth", "/../x", "*", "/%00", "http://evil.example/"]);
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{KEY}\r\n").into_bytes()
        }
        8 => get("/health", &format!("{KEY}x: {}\r\n", "y".repeat(numbers.below(70_000)))),
        9 | 10 => {
            reads = numbers.below(4) > 0;
            socket(numbers)
        }
        // A good request with some wrong bytes.
        11 => {
            let mut bytes = good(numbers);
            for _ in 0..=numbers.below(6) {
                let at = numbers.below(bytes.len());
                bytes[at] = numbers.next() as u8;
            }
            bytes
        }
        12 => {
            n_pieces = 2 + numbers.below(20);
            good(numbers)
        }
        _ => {
            let head =
                format!("POST /v1/decode HTTP/1.1\r\nhost: localhost\r\n{KEY}transfer-encoding: chunked\r\n\r\n");
            let size = numbers.pick(&["3e8", "3E8;x", "fffffffffffffffff", "-1", "", "400"]);
            let n_chunks = numbers.below(200);
            let chunk = [size.as_bytes(), b"\r\n", &[b' '; 1000], b"\r\n"].concat();
            [head.as_bytes(), &chunk.repeat(n_chunks), b"0\r\n\r\n"].concat()
        }
    };
    let n_sent = (bytes.len() as f64 * share) as usize;
    Act { bytes, n_sent, n_pieces, reads }
}

/// Does one of them, and returns the status of the first answer, 0 if there is none.
fn perform(address: &str, act: &Act) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for piece in act.bytes[..act.n_sent].chunks((act.n_sent / act.n_pieces).max(1)) {
        // The server may have closed already.
        if stream.write_all(piece).is_err() {
            break;
        }
        std::thread::yield_now();
    }
    if !act.reads {
        return 0;
    }
    // Whatever was begun ends with this.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    // A server that ends live music may reset the connection.
    let _ = stream.read_to_end(&mut answer);
    let mut rest = &answer[..];
    while let Some(behind) = rest.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n") {
        rest = behind;
    }
    rest.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
}

/// Sends the requests from one number to another, and counts their statuses.
fn storm(address: &str, requests: std::ops::Range<usize>) -> BTreeMap<u16, usize> {
    let next = AtomicUsize::new(requests.start);
    std::thread::scope(|scope| {
        let client = || {
            let mut counts = BTreeMap::<u16, usize>::new();
            loop {
                let n = next.fetch_add(1, Relaxed);
                if n >= requests.end {
                    return counts;
                }
                let act = act(&mut Numbers(n as u64));
                let status = perform(address, &act);
                assert!(STATUSES.contains(&status), "{status}: {}", String::from_utf8_lossy(&act.bytes));
                *counts.entry(status).or_default() += 1;
            }
        };
        let clients: Vec<_> = (0..N_CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().fold(BTreeMap::new(), |mut all, client| {
            for (status, n) in client.join().unwrap() {
                *all.entry(status).or_default() += n;
            }
            all
        })
    })
}

#[test]
#[ignore = "extended: 60,000 requests"]
fn a_server_survives_every_kind_of_request_and_its_memory_does_not_grow() {
    let sandbox = Sandbox::new();
    let mut server = Served::start(&sandbox);
    let few = storm(&server.address, 0..FEW);
    let after_few = server.settled_bytes();
    let many = storm(&server.address, FEW..MANY);
    let after_many = server.settled_bytes();
    println!("{few:?}, {:.1} MB; {many:?}, {:.1} MB", after_few / 1e6, after_many / 1e6);
    for status in [200, 400, 401, 403, 404, 405, 431] {
        assert!(few.contains_key(&status), "no request got {status}: {few:?}");
    }
    let metrics = server.ask("/metrics");
    assert!(!metrics.contains("status=\"500\""), "{metrics}");
    assert!(
        after_many <= after_few + GROWTH_BYTES,
        "{after_few} bytes after {FEW} requests, {after_many} after {MANY}"
    );
    assert!(Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let said = server.events.take().unwrap().join().unwrap();
    assert!(!said.contains("panicked"), "{said}");
}
