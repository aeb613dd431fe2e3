//! `melisma serve` from outside: the address, the samples, keys and signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use melisma_bench::stand_in::{Script, StandIn};
use melisma_server::websocket::frame::Reader;
use melisma_server::websocket::{Message, Writer};

use crate::sandbox::{Ran, Sandbox};

/// Longer than anything takes on a busy machine: only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

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
            assert!(start.elapsed() < PATIENCE, "not ready");
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
        self.send("-TERM");
    }

    fn send(&self, signal: &str) {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// Waits for a line of stderr that starts so.
    fn hear(&mut self, start: &str) {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "it never said {start}");
        }
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

/// Tokens of some frames.
pub fn tokens(n_frames: usize) -> Vec<String> {
    let token = |frame: usize, slot: usize| format!("<custom_token_{}>", 10 + 4096 * slot + 31 * frame + slot);
    (0..n_frames).flat_map(|frame| (0..7).map(move |slot| token(frame, slot))).collect()
}

#[test]
fn the_samples_are_those_of_decode() {
    let sandbox = Sandbox::new();
    let tokens = tokens(6).concat();
    std::fs::write(sandbox.path("tokens.txt"), &tokens).unwrap();
    let decoded = sandbox.run(&["decode", "tokens.txt", "-o", "a.wav", "--noise", "seed:3", "--device", "cpu"]);
    assert_eq!(decoded.code, 0, "{}", decoded.stderr);
    let expected = std::fs::read(sandbox.path("a.wav")).unwrap();
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "2", "--device", "cpu"]));
    let answer = served.ask("POST", "/v1/decode?noise=seed:3", "", tokens.as_bytes());
    assert_eq!(body(&answer)[44..], expected[44..]);
}

#[test]
fn speech_is_what_decode_makes_of_the_upstreams_tokens() {
    let sandbox = Sandbox::new();
    let tokens = tokens(12);
    std::fs::write(sandbox.path("tokens.txt"), tokens.concat()).unwrap();
    let decoded = sandbox.run(&["decode", "tokens.txt", "-o", "a.wav", "--device", "cpu"]);
    assert_eq!(decoded.code, 0, "{}", decoded.stderr);
    let upstream = StandIn::start(move |_| Script::of(tokens.clone())).unwrap();
    let args = ["serve", "--port", "0", "--max-streams", "2", "--device", "cpu", "--model", "builtin:mini24"];
    std::fs::write(sandbox.path("key"), "theirs\n").unwrap();
    std::fs::write(sandbox.path("a.yaml"), "upstream:\n  api: chat\n  voices: ann, bo\n").unwrap();
    let more = ["--upstream", &upstream.url(), "--upstream-key-file", "key", "--config", "a.yaml"];
    let served = Served::start(sandbox.command(&[&args[..], &more].concat()));
    let asked = br#"{"model": "tts-1", "voice": "bo", "input": "Hi.", "response_format": "wav"}"#;
    let answer = served.ask("POST", "/v1/audio/speech", "content-type: application/json\r\n", asked);
    assert_eq!(body(&answer)[44..], std::fs::read(sandbox.path("a.wav")).unwrap()[44..]);
    let seen = &upstream.asked()[0];
    assert!(
        seen.head.starts_with("POST /v1/chat/completions ") && seen.head.contains("Bearer theirs"),
        "{}",
        seen.head
    );
    assert_eq!(seen.body["messages"][0]["content"], "bo: Hi.");
}

#[test]
fn the_upstreams_key_comes_from_the_environment_too() {
    let sandbox = Sandbox::new();
    let upstream = StandIn::start(|_| Script::of(tokens(12))).unwrap();
    let url = upstream.url();
    let args = ["serve", "--port", "0", "--max-streams", "2", "--device", "cpu", "--model", "builtin:mini24"];
    let mut command = sandbox.command(&[&args[..], &["--upstream", &url]].concat());
    command.env("MELISMA_UPSTREAM_KEY", "theirs");
    let mut served = Served::start(command);
    let asked = br#"{"model": "tts-1", "voice": "tara", "input": "Hi.", "response_format": "wav"}"#;
    let answer = served.ask("POST", "/v1/audio/speech", "content-type: application/json\r\n", asked);
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    let head = &upstream.asked()[0].head;
    assert!(head.contains("authorization: Bearer theirs\r\n"), "{head}");
    served.signal();
    let mut events = String::new();
    served.events.read_to_string(&mut events).unwrap();
    assert!(events.contains(r#""event":"upstream""#) && !events.contains("theirs"), "{events}");
}

/// The bytes of the samples of the first `n_blocks` blocks of a WebSocket.
fn blocks(served: &Served, path: &str, n_blocks: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\n{upgrade}{key}\r\n\r\n", served.address).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let (mut reader, mut piece) = (Reader::new(Writer::Server, 1 << 20), [0; 4096]);
    let (mut samples, mut n) = (Vec::new(), 0);
    while n < n_blocks {
        match reader.message().unwrap() {
            Some(Message::Binary(block)) => {
                samples.extend_from_slice(&block[16..]);
                n += 1;
            }
            Some(_) => {}
            None => {
                let n = stream.read(&mut piece).unwrap();
                assert!(n > 0, "the stream ended");
                reader.feed(&piece[..n]);
            }
        }
    }
    samples
}

#[test]
fn live_music_and_pieces_are_those_of_synth() {
    let sandbox = Sandbox::new();
    let render = |args: &[&str], name: &str| {
        let ran = sandbox.run(&[&["synth"], args, &["--loudness", "off", "-o", name]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        std::fs::read(sandbox.path(name)).unwrap()
    };
    let endless = render(&["preset:focus", "--seed", "7", "--endless", "--seconds", "1.5"], "endless.wav");
    let piece = render(&["preset:bright", "--seed", "a tune", "--seconds", "1.5", "--rate", "24000"], "piece.wav");
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    assert!(blocks(&served, "/v1/synth?preset=focus&seed=7", 150) == endless[44..], "the endless piece differs");
    let answer = served.ask("GET", "/v1/synth.wav?preset=bright&seed=a+tune&seconds=1.5&rate=24000", "", b"");
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(answer[start..] == piece, "the piece differs");
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
    write!(open, "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n").unwrap();
    let start = Instant::now();
    while !String::from_utf8_lossy(&served.ask("GET", "/v1/status", "", b"")).contains(r#""kind":"decode""#) {
        assert!(start.elapsed() < PATIENCE, "the request is not open");
    }
    served.signal();
    served.hear("draining");
    open.write_all(tokens(6).concat().as_bytes()).unwrap();
    let mut answer = [0; 12];
    open.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200", "the open request goes on");
    served.signal();
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_hangup_ends_the_server_at_once() {
    let sandbox = Sandbox::new();
    let mut served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    served.send("-HUP");
    assert_eq!(served.child.wait().unwrap().code(), Some(129));
}

#[test]
fn a_quiet_server_says_nothing() {
    let sandbox = Sandbox::new();
    let start = Instant::now();
    let child = loop {
        // Somebody else may take the port before the server does.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut command = sandbox.command(&["serve", "-q", "--port", &port, "--max-streams", "1", "--device", "cpu"]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let is_there = || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
        while !is_there() && child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        if child.try_wait().unwrap().is_none() {
            break child;
        }
    };
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stdout, &*ended.stderr), (Some(0), &b""[..], &b""[..]), "{ended:?}");
}

#[test]
fn what_cannot_be_served_is_an_error() {
    let sandbox = Sandbox::new();
    let refused = |args: &[&str], said: &str| {
        let ran = sandbox.run(&[&["serve", "--port", "0"], args].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    };
    refused(&["--host", "0.0.0.0"], "needs a key");
    refused(&["--allow-origin", "example.com"], "expected a scheme and a host");
    refused(&["--api-key-file", "absent"], "absent");
    refused(&["--model", "absent"], "absent");
    std::fs::write(sandbox.path("key"), "two words\n").unwrap();
    refused(&["--api-key-file", "key"], "key: a key is visible ASCII characters without spaces");
    std::fs::write(sandbox.path("empty"), "\n").unwrap();
    refused(&["--api-key-file", "empty"], "empty: the key is empty");
    let ran = Ran::from(sandbox.command(&["serve", "--port", "0"]).env("MELISMA_API_KEY", "").output().unwrap());
    assert!(ran.code == 2 && ran.stderr.contains("MELISMA_API_KEY: the key is empty"), "{}", ran.stderr);
    let upstream = ["--model", "builtin:mini24", "--upstream", "http://127.0.0.1:1"];
    refused(&upstream[2..], "--upstream without --model");
    refused(&["--model", "builtin:mini24", "--upstream", "127.0.0.1:8000"], "expected http:// or https://");
    refused(&[&upstream[..], &["--upstream-key-file", "key"]].concat(), "without spaces");
    std::fs::write(sandbox.path("a.yaml"), "upstream:\n  template: hello\n").unwrap();
    refused(&[&upstream[..], &["--config", "a.yaml"]].concat(), "a.yaml:2: the template has no `{text}`");
    std::fs::write(sandbox.path("a.yaml"), "upstream:\n  api: speech\n").unwrap();
    refused(&[&upstream[..], &["--config", "a.yaml"]].concat(), "expected completions or chat");
}

/// The words of `text` that start with `prefix`, made of the given characters.
fn words<'a>(text: &'a str, prefix: &'a str, is_part: fn(char) -> bool) -> impl Iterator<Item = &'a str> {
    text.match_indices(prefix).map(move |(at, _)| {
        let rest = &text[at..];
        rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].trim_end_matches(['.', '/', '_'])
    })
}

/// The flags after `serve`, in lists of arguments and in prose.
fn flags(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let parts = text.lines().map(|line| match line.split_once("serve") {
        Some((_, arguments)) => arguments,
        None if line.trim().starts_with("- --") || line.contains("`--") => line,
        None => "",
    });
    let words = parts.flat_map(|part| part.split(|c: char| !c.is_ascii_lowercase() && c != '-'));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

#[test]
fn the_files_for_running_it_name_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["serve", "--help"]).stdout;
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "2", "--device", "cpu"]));
    let asked = |path| String::from_utf8(served.ask("GET", path, "", b"")).unwrap();
    let (metrics, routes) = (asked("/metrics"), asked("/openapi.json"));
    let mut n_found = [0; 3];
    for file in ["melisma.service", "Dockerfile", "nginx.conf", "kubernetes.yaml", "../docs/running.md"] {
        let text = std::fs::read_to_string(root.join("deploy").join(file)).unwrap();
        for metric in words(&text, "melisma_", |c| c.is_ascii_lowercase() || c == '_') {
            let series = metric.trim_end_matches("_bucket");
            assert!(metrics.contains(&format!("# TYPE {series} ")), "{file}: no metric {metric}");
            n_found[0] += 1;
        }
        for flag in flags(&text) {
            assert!(help.contains(&format!("{flag} ")), "{file}: no flag {flag}");
            n_found[1] += 1;
        }
        for route in words(&text, "/v1/", |c| c.is_ascii_alphanumeric() || "/.".contains(c)) {
            let is_known = routes.contains(&format!("\"{route}\":")) || routes.contains(&format!("\"{route}/{{"));
            assert!(is_known, "{file}: no route {route}");
            n_found[2] += 1;
        }
    }
    assert!(n_found.into_iter().zip([10, 15, 10]).all(|(found, least)| found >= least), "{n_found:?}");
    let protocol = std::fs::read_to_string(root.join("docs/protocol.md")).unwrap();
    for metric in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(protocol.contains(&format!("`{metric}")), "docs/protocol.md lacks {metric}");
    }
}

#[test]
fn the_curl_line_of_the_readme_gets_a_piece() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let line = readme.lines().find(|line| line.starts_with("curl ")).unwrap();
    let path = line.split("http://127.0.0.1:8431").nth(1).unwrap().split('"').next().unwrap();
    let sandbox = Sandbox::new();
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    let answer = served.ask("GET", path, "", b"");
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.windows(4).any(|four| four == b"RIFF"), "{path}");
}
