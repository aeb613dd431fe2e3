//! A server on a free port, and a small client that sends any bytes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use melisma::runtime::memory::Budget;
use melisma::snac::tokens::to_orpheus;
use melisma::snac::{Codes, Engine, EngineOptions, Model, Noise};
use melisma::{Device, Result};
use melisma_server::batcher::{Batcher, Capacity, Setup, Sizing};
use melisma_server::encoder;
use melisma_server::speakers::Speakers;
use melisma_server::websocket::frame::Reader;
use melisma_server::websocket::{Message, Writer};
use melisma_server::{BuildInfo, Decoder, Guard, Limits, Listen, Log, Server, Settings, Stopper};
use serde_json::Value;

/// Longer than anything takes on a busy machine: only a test that fails waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(Model::mini24().unwrap()));

/// A running server.
pub struct Fixture {
    pub address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Fixture {
    /// A server for `max_streams` streams, ready.
    pub fn new(max_streams: usize, guard: Guard, limits: Limits) -> Self {
        Self::start(max_streams, Settings { guard, limits, ..settings() })
    }

    pub fn start(max_streams: usize, settings: Settings) -> Self {
        Self::on(Device::cpu().unwrap(), &MODEL, max_streams, settings)
    }

    /// A server that decodes on `device`, and encodes on the CPU: an encoder on the shim is not ready within minutes.
    pub fn on(device: Device, model: &Arc<Model>, max_streams: usize, settings: Settings) -> Self {
        Self::with_speakers(device, model, max_streams, settings, |_, _| Ok(Vec::new()))
    }

    /// A server with voice models.
    pub fn with_speakers(
        device: Device,
        model: &Arc<Model>,
        max_streams: usize,
        settings: Settings,
        load: impl FnOnce(&Arc<Model>, &Device) -> Result<Vec<Speakers>> + Send + 'static,
    ) -> Self {
        let (said, model, stopper) = (settings.log.clone(), Arc::clone(model), settings.stopper.clone());
        let server = Server::bind(settings).unwrap();
        let address = server.address();
        let thread = std::thread::spawn(move || {
            server.run(|metrics, stopper| {
                let budget = Budget::unlimited();
                let queue = device.queue(&budget)?;
                let encoder = encoder::start(&model, &Device::cpu()?.queue(&budget)?, &budget, metrics)?;
                let metrics = Arc::clone(metrics);
                let sizing = Sizing::Given(Capacity { streams: max_streams, step_frames: 8 });
                let (options, log, stopper) = (EngineOptions::new(max_streams), said, stopper.clone());
                let setup = Setup { queue: &queue, budget: &budget, options, sizing, metrics, log, stopper };
                let batcher = Batcher::start(&model, setup)?;
                let speakers = load(&model, &device)?;
                Ok(Decoder { model, batcher, encoder, speakers, device })
            })
        });
        let fixture = Self { address, stopper, thread: Some(thread) };
        until("the server is ready", || fixture.get("/ready").status == 200);
        fixture
    }

    pub fn plain(max_streams: usize) -> Self {
        Self::new(max_streams, Guard::default(), Limits::default())
    }

    /// A server that refuses the stream after the last at once.
    pub fn without_queue(max_streams: usize) -> Self {
        Self::new(max_streams, Guard::default(), Limits { queue: Duration::ZERO, ..Limits::default() })
    }

    pub fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Sends any bytes and reads all that comes back.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut socket = self.connect();
        // A server that refuses early may close before all is sent.
        let _ = socket.write_all(bytes);
        Answer::read(&mut socket)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.raw(&request(method, path, headers, body))
    }

    /// The status and the error's code that a POST of `body` gets.
    pub fn refusal(&self, path: &str, body: &[u8]) -> (u16, String) {
        let answer = self.request("POST", path, &[], body);
        (answer.status, answer.code())
    }

    /// Checks that the answer to a POST begins before the last bytes of `body` are sent.
    pub fn answers_early(&self, path: &str, body: &[u8]) {
        let mut stream = self.connect();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body[..body.len() - 10]).unwrap();
        let (head, _) = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }

    /// All that answers a `HEAD`.
    pub fn head(&self, path: &str, header: (&str, &str)) -> String {
        let mut socket = self.connect();
        socket.write_all(&request("HEAD", path, &[header], b"")).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.request("POST", path, &[("content-type", "text/plain"), ("te", "trailers")], body)
    }

    /// Upgrades a connection, or returns the refusal.
    pub fn socket(&self, path: &str, headers: &[(&str, &str)]) -> std::result::Result<Socket, Answer> {
        let upgrade = [
            ("upgrade", "websocket"),
            ("connection", "Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let headers: Vec<_> = upgrade.into_iter().chain(headers.iter().copied()).collect();
        let mut text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n");
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        let mut stream = self.connect();
        stream.write_all((text + "\r\n").as_bytes()).unwrap();
        let (head, rest) = read_head(&mut stream);
        if !head.starts_with("HTTP/1.1 101") {
            return Err(Answer::finish(&mut stream, &head, rest));
        }
        let mut reader = Reader::new(Writer::Server, 1 << 24);
        reader.feed(&rest);
        Ok(Socket { stream, reader, head: head.to_lowercase() })
    }

    pub fn drain(&self) {
        self.stopper.drain();
    }

    pub fn join(mut self) -> Result<()> {
        self.stopper.drain();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stopper.drain();
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A golden file of audio.
pub fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/audio")).join(name)
}

/// A server without rules on a free port.
pub fn settings() -> Settings {
    Settings {
        listen: Listen::Address("127.0.0.1:0".parse().unwrap()),
        guard: Guard::default(),
        limits: Limits::default(),
        log: Log::default(),
        threads: 2,
        upstream: None,
        build: BuildInfo::default(),
        stopper: Stopper::default(),
    }
}

/// The bytes of a request that closes the connection.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text += "host: localhost\r\n";
    }
    headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
    if !body.is_empty() {
        text += &format!("content-length: {}\r\n", body.len());
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// 0 if the connection closed without an answer.
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub trailers: BTreeMap<String, String>,
    /// Whether the body has the end that its headers announce.
    pub is_whole: bool,
}

impl Answer {
    pub fn read(stream: &mut TcpStream) -> Self {
        let (head, rest) = read_head(stream);
        Self::finish(stream, &head, rest)
    }

    /// The rest of an answer whose head was read.
    pub fn finish(stream: &mut TcpStream, head: &str, mut rest: Vec<u8>) -> Self {
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let headers = fields(head);
        let len = headers.get("content-length").and_then(|len| len.parse::<usize>().ok());
        let left = len.map_or(u64::MAX, |len| len.saturating_sub(rest.len()) as u64);
        // A reset after an early refusal ends the body too.
        let _ = stream.take(left).read_to_end(&mut rest);
        let mut answer = Self { status, headers, body: Vec::new(), trailers: BTreeMap::new(), is_whole: true };
        if answer.headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            answer.unchunk(&rest);
        } else {
            answer.is_whole = len.is_none_or(|len| len == rest.len());
            answer.body = rest;
        }
        answer
    }

    fn unchunk(&mut self, mut rest: &[u8]) {
        self.is_whole = false;
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let len = std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
            let Some(len) = len else { return };
            rest = &rest[end + 2..];
            if len == 0 {
                self.is_whole = rest.ends_with(b"\r\n");
                self.trailers = fields(&String::from_utf8_lossy(rest));
                return;
            }
            if rest.len() < len + 2 {
                return self.body.extend_from_slice(rest);
            }
            self.body.extend_from_slice(&rest[..len]);
            rest = &rest[len + 2..];
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

fn fields(head: &str) -> BTreeMap<String, String> {
    let field = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    head.lines().filter_map(field).collect()
}

/// Everything up to the empty line, and what came with it. Interim answers are skipped.
pub fn read_head(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            if bytes.starts_with(b"HTTP/1.1 100 ") {
                bytes = rest;
                continue;
            }
            return (String::from_utf8_lossy(&bytes).into_owned(), rest);
        }
        match stream.read(&mut piece) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&piece[..n]),
            _ => return (String::from_utf8_lossy(&bytes).into_owned(), Vec::new()),
        }
    }
}

/// A client's WebSocket.
pub struct Socket {
    pub stream: TcpStream,
    reader: Reader,
    pub head: String,
}

impl Socket {
    pub fn send(&mut self, message: &Message) {
        // The server may have closed already, which the test sees when it reads.
        let _ = self.stream.write_all(&message.frame(Some([7, 1, 200, 33])));
    }

    pub fn say(&mut self, text: &str) {
        self.send(&Message::Text(text.to_owned()));
    }

    /// The next message; `None` when the connection ends.
    pub fn next(&mut self) -> Option<Message> {
        let mut piece = [0; 4096];
        loop {
            if let Some(message) = self.reader.message().unwrap() {
                return Some(message);
            }
            match self.stream.read(&mut piece) {
                Ok(n) if n > 0 => self.reader.feed(&piece[..n]),
                _ => return None,
            }
        }
    }

    pub fn next_json(&mut self) -> Value {
        match self.next() {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("no text message: {other:?}"),
        }
    }
}

/// Some frames of codes.
pub fn codes(seed: i32, n_frames: usize) -> Codes {
    let n = n_frames * MODEL.config().n_slots();
    let size = MODEL.config().codebook_size as i32;
    let frames: Vec<i32> = (0..n as i32).map(|i| (i * 7919 + seed * 104_729).rem_euclid(size)).collect();
    Codes::from_frames(MODEL.config(), &frames).unwrap()
}

/// Tokens of `codes`, with the model's stamp.
pub fn tokens(codes: &Codes) -> String {
    to_orpheus(&MODEL, codes).unwrap()
}

/// The samples that the engine alone makes.
pub fn samples(codes: &Codes, noise: &Noise) -> Vec<f32> {
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    Engine::new(&MODEL, &queue, &budget, EngineOptions::new(1)).unwrap().decode(codes, noise).unwrap()
}

/// The audio of events, and the events that have none.
pub fn unpack(body: &[u8]) -> (Vec<u8>, Vec<Value>) {
    let (mut audio, mut rest) = (Vec::new(), Vec::new());
    for event in std::str::from_utf8(body).unwrap().split_terminator("\n\n") {
        let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        match event["type"].as_str() {
            Some("speech.audio.delta") => {
                assert_ne!(event["audio"], "", "an event without audio");
                audio.extend(base64(event["audio"].as_str().unwrap()));
            }
            _ => rest.push(event),
        }
    }
    (audio, rest)
}

/// The bytes of base64.
pub fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|byte| ALPHABET.iter().position(|letter| *letter == byte).map(|digit| digit as u32))
        .collect();
    let group = |digits: &[u32]| {
        let bits = digits.iter().enumerate().fold(0, |bits, (index, digit)| bits | digit << (18 - 6 * index));
        bits.to_be_bytes()[1..digits.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
