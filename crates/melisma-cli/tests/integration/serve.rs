//! `melisma serve` from outside: the address, the samples, keys and signals.
//! More than 400 lines because all tests share the server's process and its client.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use melisma::audio::{Clip, wav};
use melisma::snac::Model;
use melisma_bench::stand_in::{Script, StandIn};
use melisma_server::websocket::frame::Reader;
use melisma_server::websocket::{Message, Writer};

use crate::sandbox::{Ran, Sandbox, golden_file};

/// Longer than anything takes on a busy machine: only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is ended with the test.
pub struct Served {
    child: Child,
    address: String,
    /// Its stderr, read by a thread, so that its pipe is never full.
    lines: Receiver<String>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    pub fn start(command: Command) -> Self {
        let served = Self::begin(command);
        let start = Instant::now();
        while !served.ask("GET", "/ready", "", b"").starts_with(b"HTTP/1.1 200") {
            assert!(start.elapsed() < PATIENCE, "not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    /// A server that listens, and may not be ready yet.
    fn begin(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (events, (sender, lines)) = (BufReader::new(child.stderr.take().unwrap()), mpsc::channel());
        std::thread::spawn(move || events.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let line = lines.recv_timeout(PATIENCE).unwrap();
        let address = line.strip_prefix("http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, lines }
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        ask(&self.address, method, path, headers, body)
    }

    fn signal(&self) {
        self.send("-TERM");
    }

    fn send(&self, signal: &str) {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// Waits for a line of stderr that starts so.
    fn hear(&self, start: &str) {
        while !self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never said {start}")).starts_with(start)
        {
        }
    }

    /// Waits for an event on stderr that has such a part.
    fn hear_event(&self, part: &str) {
        let hear = || self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no event has {part}"));
        let is_it = |line: String| line.starts_with('{') && line.contains(part);
        while !is_it(hear()) {}
    }

    /// Returns the lines of stderr that were not heard, up to its end.
    fn rest(&self) -> String {
        self.lines.iter().map(|line| line + "\n").collect()
    }
}

/// The answer to a request over a connection of its own.
fn ask(address: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    write!(stream, "{head}{headers}content-length: {len}\r\n\r\n").unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// The bytes of a chunked body.
pub fn body(answer: &[u8]) -> Vec<u8> {
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
fn a_voice_model_says_what_speak_says() {
    let sandbox = crate::speak::stocked();
    let model = golden_file("snac/tiny24");
    let text = "Good morning. It is 12 o'clock!";
    for (output, voice, seed) in [("a.wav", "ann", "0"), ("b.wav", "bob", "7")] {
        crate::speak::done(&sandbox, &[text, "-o", output, "--voice", voice, "--seed", seed, "--device", "cpu"]);
    }
    let args = ["serve", "--port", "0", "--max-streams", "4", "--device", "cpu", "--model", &model];
    let more = ["--voice-model", "mine=voice", "--voice-model", "voice", "--speakers", "2"];
    let served = Served::start(sandbox.command(&[&args[..], &more].concat()));
    let say = |more: &str| {
        let asked = format!(r#"{{"input": "{text}", "response_format": "wav"{more}}}"#);
        body(&served.ask("POST", "/v1/audio/speech", "content-type: application/json\r\n", asked.as_bytes()))
    };
    let expected = ["a.wav", "b.wav"].map(|name| std::fs::read(sandbox.path(name)).unwrap());
    assert!(say("")[44..] == expected[0][44..]);
    for model in ["mine", "voice", "tts-1"] {
        assert!(
            say(&format!(r#", "voice": "bob", "seed": 7, "model": "{model}""#))[44..] == expected[1][44..],
            "{model}"
        );
    }
    let models = String::from_utf8(served.ask("GET", "/v1/models", "", b"")).unwrap();
    assert!(models.contains(r#""id":"mine""#) && models.contains(r#""id":"voice""#), "{models}");
    served.signal();
    let said = served.rest();
    assert!(said.contains("voice model mine: 2 speakers, as set; "), "{said}");
}

#[test]
fn a_voice_model_that_cannot_be_served_is_an_error() {
    let sandbox = crate::speak::stocked();
    let model = golden_file("snac/tiny24");
    let refused = |args: &[&str], said: &str| {
        let ran = sandbox.run(&[&["serve", "--port", "0", "--device", "cpu", "--max-streams", "1"], args].concat());
        assert!((2..=4).contains(&ran.code), "{}: {}", ran.code, ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    };
    refused(&["--voice-model", "voice"], "the voice model was trained with");
    refused(&["--model", &model, "--voice-model", "absent"], "absent");
    refused(&["--voice-model", "two words=voice"], "--voice-model: the voice model in voice has no name");
    refused(&["--voice-model", "voice", "--voice-model", "a/voice"], "two voice models have the name voice");
    refused(&["--voice-model", "upstream=voice"], "the name upstream is that of an upstream");
    refused(&["--speakers", "0"], "expected auto or 1 to 4096");
}

#[test]
fn the_upstreams_key_comes_from_the_environment_too() {
    let sandbox = Sandbox::new();
    let upstream = StandIn::start(|_| Script::of(tokens(12))).unwrap();
    let url = upstream.url();
    let args = ["serve", "--port", "0", "--max-streams", "2", "--device", "cpu", "--model", "builtin:mini24"];
    let mut command = sandbox.command(&[&args[..], &["--upstream", &url]].concat());
    command.env("MELISMA_UPSTREAM_KEY", "theirs");
    let served = Served::start(command);
    let asked = br#"{"model": "tts-1", "voice": "tara", "input": "Hi.", "response_format": "wav"}"#;
    let answer = served.ask("POST", "/v1/audio/speech", "content-type: application/json\r\n", asked);
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    let head = &upstream.asked()[0].head;
    assert!(head.contains("authorization: Bearer theirs\r\n"), "{head}");
    served.signal();
    let events = served.rest();
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
    let changes = ["--key", "F#", "--mode", "lydian", "--tempo", "120", "--intensity", "0.8", "--voices", "melody"];
    let sound = ["--brightness", "2.5", "--reverb", "0", "--seed", "7", "--seconds", "1.5", "--rate", "24000"];
    let changed = render(&[&["preset:focus"][..], &changes, &sound].concat(), "changed.wav");
    let piece = render(&["preset:bright", "--seed", "a tune", "--seconds", "1.5", "--rate", "24000"], "piece.wav");
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    assert!(blocks(&served, "/v1/synth?preset=focus&seed=7", 150) == endless[44..], "the endless piece differs");
    let answer = served.ask("GET", "/v1/synth.wav?preset=bright&seed=a+tune&seconds=1.5&rate=24000", "", b"");
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(answer[start..] == piece, "the piece differs");
    let address = "/v1/synth.wav?preset=focus&key=F%23&mode=lydian&tempo=120&intensity=0.8&voices=melody\
                   &brightness=2.5&reverb=0&seed=7&seconds=1.5&rate=24000";
    let answer = served.ask("GET", address, "", b"");
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(answer[start..] == changed, "the changed piece differs");
    let answer = served.ask("GET", "/v1/synth.wav?preset=./mine.yaml", "", b"");
    assert!(answer.starts_with(b"HTTP/1.1 400"), "a client names a file");
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
    let events = served.rest();
    assert!(events.contains("draining"), "{events}");
    assert!(events.contains(r#""event":"request""#) && !events.contains("opensesame"), "{events}");
}

fn status(served: &Served) -> serde_json::Value {
    let answer = served.ask("GET", "/v1/status", "", b"");
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    serde_json::from_slice(&answer[start..]).unwrap()
}

#[test]
fn streams_are_pinned_and_the_queue_is_chosen() {
    let sandbox = Sandbox::new();
    let args = ["serve", "--port", "0", "--streams", "3", "--queue", "250ms", "--device", "cpu"];
    let pinned = status(&Served::start(sandbox.command(&args)));
    assert_eq!((&pinned["capacity_streams"], &pinned["capacity"]["source"]), (&3.into(), &"pinned".into()));
    assert_eq!(pinned["queue"]["limit_seconds"], 0.25);
    let mut command = sandbox.command(&["serve", "--port", "0", "--max-streams", "2", "--device", "cpu"]);
    command.envs([("MELISMA_SERVE_STREAMS", "3"), ("MELISMA_SERVE_QUEUE", "0s")]);
    let lowered = status(&Served::start(command));
    assert_eq!((&lowered["capacity_streams"], &lowered["queue"]["limit_seconds"]), (&2.into(), &0.0.into()));
    for wrong in [["--queue", "31s"], ["--queue", "5"], ["--streams", "0"]] {
        let ran = sandbox.run(&[&["serve"][..], &wrong].concat());
        assert!(ran.code == 2 && ran.stderr.contains(wrong[0]), "{wrong:?}: {} {}", ran.code, ran.stderr);
    }
}

#[test]
fn a_capacity_is_cached_until_the_cache_is_cleared() {
    let sandbox = Sandbox::new();
    let start = || {
        let command = sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]);
        status(&Served::start(command))["capacity"].clone()
    };
    assert_eq!(start()["source"], "measured");
    // The steadier of the two measurements is taken.
    let second = start();
    assert!(second["source"] == "cached" || second["source"] == "measured", "{second}");
    assert_eq!((&second["streams"], &second["measured_streams"]), (&1.into(), &1.into()));
    let cleared: serde_json::Value = serde_json::from_str(&sandbox.run(&["cache", "clear", "--json"]).stdout).unwrap();
    assert_eq!(cleared["capacities"], 1, "{cleared}");
}

#[test]
fn a_server_that_is_stopped_while_it_measures_is_never_ready() {
    let sandbox = Sandbox::new();
    let mut served = Served::begin(sandbox.command(&["serve", "--port", "0", "--device", "cpu"]));
    served.signal();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    let lines = served.rest();
    let (_, after) = lines.split_once("draining").unwrap_or_else(|| panic!("{lines}"));
    assert!(!after.contains("ready on"), "{lines}");
}

#[test]
fn a_second_signal_ends_open_streams() {
    let sandbox = Sandbox::new();
    let mut served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    let mut open = TcpStream::connect(&served.address).unwrap();
    write!(open, "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n").unwrap();
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
fn a_hangup_reads_the_keys_and_the_voices_again() {
    let sandbox = Sandbox::new();
    let upstream = StandIn::start(|_| Script::Silence).unwrap();
    let write = |name: &str, text: &str| std::fs::write(sandbox.path(name), text).unwrap();
    write("keys", "ann: key-of-ann\n");
    std::fs::set_permissions(sandbox.path("keys"), Permissions::from_mode(0o644)).unwrap();
    write("a.yaml", "upstream:\n  voices: ann, bo\n");
    let args = ["serve", "--port", "0", "--max-streams", "1", "--device", "cpu", "--model", "builtin:mini24"];
    let more = ["--upstream", &upstream.url(), "--api-key-file", "keys", "--config", "a.yaml"];
    let mut served = Served::start(sandbox.command(&[&args[..], &more].concat()));
    served.hear("warning: keys: every user can read the keys; run `chmod 600 keys`");
    let voices = |served: &Served, name: &str| {
        let key = format!("authorization: Bearer key-of-{name}\r\n");
        String::from_utf8(served.ask("GET", "/v1/audio/voices", &key, b"")).unwrap()
    };
    assert!(voices(&served, "ann").contains(r#""id":"bo""#));
    let keys = "# changed\nbo: key-of-bo streams=3\ncy: key-of-cy until=2999-01-01\ndee: key-of-dee scope=metrics\n";
    write("keys", keys);
    write("a.yaml", "upstream:\n  voices: cy\n");
    served.send("-HUP");
    served.hear_event(r#""event":"reloaded","keys":3}"#);
    served.hear_event(r#""event":"reloaded","voices":1}"#);
    assert!(voices(&served, "ann").starts_with("HTTP/1.1 401"));
    assert!(voices(&served, "dee").starts_with("HTTP/1.1 403"));
    let metrics = served.ask("GET", "/metrics", "authorization: Bearer key-of-dee\r\n", b"");
    assert!(metrics.starts_with(b"HTTP/1.1 200"));
    let answer = voices(&served, "bo");
    assert!(answer.contains(r#""id":"cy""#) && !answer.contains(r#""id":"bo""#), "{answer}");
    write("keys", "bo: key-of-bo\ncy key-of-cy\n");
    write("a.yaml", "upstream:\n  voices: ' , '\n");
    served.send("-HUP");
    served.hear_event("\"message\":\"the old keys stay: keys:2: expected a name and a key");
    served.hear_event("\"message\":\"the old voices stay: ");
    assert!(voices(&served, "cy").contains(r#""id":"cy""#));
    std::fs::remove_file(sandbox.path("keys")).unwrap();
    std::fs::create_dir(sandbox.path("keys")).unwrap();
    served.send("-HUP");
    served.hear_event("\"message\":\"the old keys stay: keys: not a file, so it is not read again");
    served.signal();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_new_server_takes_over_the_socket_and_no_request_fails() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = || {
        let plain = sandbox.command(&["serve", "--port", "1", "--max-streams", "4", "--device", "cpu"]);
        let mut command = Command::new("sh");
        // The socket becomes the file 3, as systemd passes it on.
        let pass = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
        command.args(["-c", pass]).arg(plain.get_program()).args(plain.get_args());
        command.current_dir(sandbox.directory.path()).env("HOME", sandbox.directory.path());
        command.stdin(OwnedFd::from(listener.try_clone().unwrap()));
        let served = Served::start(command);
        served.hear("ready on cpu");
        served
    };
    let mut old = start();
    assert_eq!(old.address, listener.local_addr().unwrap().to_string());
    let (is_over, n_answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = old.address.clone();
    let tokens = tokens(3).concat();
    // It outlives its clients.
    let _new = std::thread::scope(|scope| {
        // If this thread fails, the others end too.
        let _over = SetOnDrop(&is_over);
        for (method, path, sent) in [("POST", "/v1/decode", tokens.as_bytes()), ("GET", "/v1/presets", &[])] {
            let (is_over, n_answers, address) = (&is_over, &n_answers, &address);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    let answer = String::from_utf8_lossy(&ask(address, method, path, "", sent)).into_owned();
                    // A capacity of one stream on a busy machine is not the handover's fault.
                    let is_full = method == "POST" && answer.contains(r#""code":"full""#);
                    assert!(answer.starts_with("HTTP/1.1 200") || is_full, "{path}: {answer:.500}");
                    n_answers.fetch_add(1, Relaxed);
                }
            });
        }
        let further = |n: usize| {
            let (start, before) = (Instant::now(), n_answers.load(Relaxed));
            while n_answers.load(Relaxed) < before + n {
                assert!(start.elapsed() < PATIENCE, "no answers come");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        further(4);
        let mut kept = TcpStream::connect(&address).unwrap();
        let mut ask_again = || write!(kept, "GET /v1/presets HTTP/1.1\r\nhost: {address}\r\n\r\n");
        ask_again().unwrap();
        further(2);
        let new = start();
        old.signal();
        old.hear("draining");
        // On a machine that stops for a while, the server has closed the connection.
        let (_, mut text) = (ask_again(), Vec::new());
        let _ = kept.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let [n_answers, n_last] = ["HTTP/1.1 200", "connection: close"].map(|line| text.matches(line).count());
        assert_eq!(n_last + 1, n_answers, "{text:.500}");
        assert_eq!(old.child.wait().unwrap().code(), Some(0));
        further(8);
        new
    });
}

/// Sets a flag, also when a test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_socket_for_another_process_is_not_taken_and_a_wrong_one_is_an_error() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]);
    command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
    drop(Served::start(command));
    let refused = |redirect: &str, n: &str, said: &str| {
        let script = format!("exec {redirect}; LISTEN_PID=$$ LISTEN_FDS={n} exec \"$0\" serve --device cpu");
        let plain = sandbox.command(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(plain.get_program()).current_dir(sandbox.directory.path());
        let ran = Ran::from(command.env("HOME", sandbox.directory.path()).output().unwrap());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("LISTEN_FDS") && ran.stderr.contains(said), "{}", ran.stderr);
    };
    refused("3</dev/null", "1", "non-socket");
    refused("3</dev/null", "2", "2 sockets were passed on; at most one");
    refused("3</dev/null", "x", "not a number");
}

#[test]
fn the_version_tells_the_build_and_the_server_tells_the_same() {
    let sandbox = Sandbox::new();
    let version = sandbox.run(&["--version"]).stdout;
    let expected = concat!("melisma ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(expected), "{version}");
    let served = Served::start(sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]));
    let answer = served.ask("GET", "/health", "", b"");
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let health: serde_json::Value = serde_json::from_slice(&answer[start..]).unwrap();
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    let told = health["features"].as_array().unwrap().iter().chain(health.get("commit"));
    for detail in told {
        assert!(version.contains(detail.as_str().unwrap()), "{version}: {health}");
    }
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
fn the_built_in_codec_behind_a_language_model_is_warned_of() {
    let sandbox = Sandbox::new();
    let tiny = golden_file("snac/tiny24");
    let said = |args: &[&str], (path, body): (&str, &[u8])| {
        let start = ["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"];
        let mut served = Served::start(sandbox.command(&[&start, args].concat()));
        for _ in 0..2 {
            assert!(served.ask("POST", path, "", body).starts_with(b"HTTP/1.1 200"));
        }
        served.signal();
        assert_eq!(served.child.wait().unwrap().code(), Some(0));
        let said = served.rest();
        // A busy machine speaks slowly.
        let others = ["does not answer", "its listeners have to wait"];
        let is_of_codec = |line: &&str| line.starts_with("warning: ") && !others.iter().any(|text| line.contains(text));
        said.lines().filter(is_of_codec).map(str::to_owned).collect::<Vec<_>>()
    };
    let bare = tokens(4).concat();
    let decode = ("/v1/decode", bare.as_bytes());
    let behind = ["--upstream", "http://127.0.0.1:1", "--model"];
    let warned = said(&[&behind[..], &["builtin:mini24"]].concat(), decode);
    assert!(warned.len() == 1 && warned[0].contains("--upstream with --model builtin:mini24"), "{warned:?}");
    assert_eq!(said(&[&behind[..], &[&tiny]].concat(), decode), [""; 0]);
    let warned = said(&[], decode);
    assert!(warned.len() == 1 && warned[0].contains("tokens without a model's stamp"), "{warned:?}");
    let warned = said(&[], ("/v1/decode", b"[[1],[2,3],[4,5,6,7]]"));
    assert!(warned.len() == 1 && warned[0].contains("tokens without a model's stamp"), "{warned:?}");
    let stamped = format!("<melisma_model_{}>{bare}", Model::mini24().unwrap().hash());
    assert_eq!(said(&[], ("/v1/decode", stamped.as_bytes())), [""; 0]);
    let clip = wav::encode(&Clip::mono(24_000, vec![0.1; 6_000]), wav::SampleFormat::S16).unwrap();
    let warned = said(&[], ("/v1/encode", &clip));
    assert!(warned.len() == 1 && warned[0].contains("tokens of builtin:mini24"), "{warned:?}");
    assert_eq!(said(&[], ("/v1/encode?format=codes", &clip)), [""; 0]);
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
    refused(&["--api-key-file", "key"], "key:1: a key is visible ASCII characters without spaces");
    std::fs::write(sandbox.path("empty"), "\n").unwrap();
    refused(&["--api-key-file", "empty"], "empty: it has no key");
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
fn the_service_manager_is_told_of_start_and_end() {
    let sandbox = Sandbox::new();
    let path = sandbox.directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut state = [0; 64];
        let len = manager.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..len]).into_owned()
    };
    let mut command = sandbox.command(&["serve", "--port", "0", "--max-streams", "1", "--device", "cpu"]);
    command.env("NOTIFY_SOCKET", &path);
    let mut served = Served::start(command);
    assert_eq!(told(), "READY=1");
    served.signal();
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
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
    let services = ["melisma.service", "melisma@.service", "melisma.socket"];
    for file in services.into_iter().chain(["Dockerfile", "nginx.conf", "kubernetes.yaml", "../docs/running.md"]) {
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
