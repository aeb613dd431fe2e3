//! A stand-in for the language model: it streams given texts at a given pace, or fails in a given way.
//! The server's tests compile this file too, through a link.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use melisma::lock::{Condvar, Mutex};
use melisma::runtime::thread;
use serde_json::{Value, json};

/// The time between two signs of life at a gate.
const SIGN_OF_LIFE: Duration = Duration::from_millis(50);

/// The answer to one request.
#[derive(Debug, Clone)]
pub enum Script {
    /// A stream of completions.
    Stream {
        /// The text of each event.
        texts: Vec<String>,
        /// The time from one event to the next.
        pace: Duration,
        /// What follows the last text.
        ending: Ending,
    },
    /// A stream of completions that waits for a gate after its first texts.
    Gated {
        /// The text of each event before the gate.
        texts: Vec<String>,
        /// While it is closed, there are signs of life without tokens.
        gate: Gate,
        /// The text of each event behind it.
        rest: Vec<String>,
        /// What follows the last text.
        ending: Ending,
    },
    /// Any bytes, after which the connection closes.
    Raw(Vec<u8>),
    /// Nothing, for as long as the client waits.
    Silence,
}

/// Lets streams go on once it is open. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Opens it for good.
    pub fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    /// Waits for a moment. Returns whether it is open.
    fn is_open(&self) -> bool {
        let waited = self.0.1.wait_timeout_while(self.0.0.lock(), SIGN_OF_LIFE, |is_open| !*is_open);
        *waited.0
    }
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it should: a reason, figures, `[DONE]`.
    Done,
    /// The connection closes.
    Cut,
    /// Nothing follows, but the connection stays open.
    Stall,
    /// The texts again and again.
    Again,
    /// The reason `length`.
    Length,
    /// The reason `stop`, then nothing, but the connection stays open.
    Stop,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The lines before the body.
    pub head: String,
    /// The body.
    pub body: Value,
    /// When each text of the answer was sent.
    pub sent: Vec<Instant>,
}

/// The stand-in, which listens until the process ends.
#[derive(Debug)]
pub struct StandIn {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    open: Arc<Mutex<usize>>,
}

impl Script {
    /// Returns the answer that sends `texts` as fast as they go, and ends properly.
    pub fn of(texts: Vec<String>) -> Self {
        Self::Stream { texts, pace: Duration::ZERO, ending: Ending::Done }
    }
}

impl StandIn {
    /// Listens on a free port of this machine. `answer` has the script for the body of a request.
    ///
    /// # Errors
    /// Every port is taken, or no thread can be started.
    pub fn start(answer: impl Fn(&Value) -> Script + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (asked, open) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<Mutex<usize>>::default());
        let (seen, count, answer) = (Arc::clone(&asked), Arc::clone(&open), Arc::new(answer));
        let listen = move || {
            for stream in listener.incoming().flatten() {
                let (seen, count, answer) = (Arc::clone(&seen), Arc::clone(&count), Arc::clone(&answer));
                // A client that gets no thread sees its connection close.
                let _ = thread::start("stand-in", move || {
                    // It fails when the client leaves.
                    let _ = serve(stream, &count, &seen, &*answer);
                });
            }
        };
        thread::start("stand-in", listen).map_err(io::Error::other)?;
        Ok(Self { address, asked, open })
    }

    /// Returns the address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// Returns the requests that are being answered.
    pub fn n_open(&self) -> usize {
        *self.open.lock()
    }
}

fn serve(
    mut stream: TcpStream,
    count: &Mutex<usize>,
    seen: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Value) -> Script,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let asked = read(&mut stream)?;
    if asked.head.starts_with("GET ") {
        // A question whether it is there.
        return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    }
    *count.lock() += 1;
    let served = follow(&mut stream, asked, seen, answer);
    *count.lock() -= 1;
    served
}

/// Follows the script of a request.
fn follow(
    stream: &mut TcpStream,
    asked: Asked,
    seen: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Value) -> Script,
) -> io::Result<()> {
    let script = answer(&asked.body);
    let is_chat = asked.head.starts_with("POST /v1/chat/");
    let index = {
        let mut seen = seen.lock();
        seen.push(asked);
        seen.len() - 1
    };
    let (first, texts, pace, ending) = match script {
        Script::Raw(bytes) => return stream.write_all(&bytes),
        Script::Silence => return wait(stream),
        Script::Stream { texts, pace, ending } => (None, texts, pace, ending),
        Script::Gated { texts, gate, rest, ending } => (Some((texts, gate)), rest, Duration::ZERO, ending),
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let say = |stream: &mut TcpStream, text: &str| {
        seen.lock()[index].sent.push(Instant::now());
        event(stream, &chunk(is_chat, text, None))
    };
    if let Some((texts, gate)) = first {
        texts.iter().try_for_each(|text| say(stream, text))?;
        while !gate.is_open() {
            event(stream, &chunk(is_chat, " ", None))?;
        }
    }
    let mut due = Instant::now();
    loop {
        for text in &texts {
            say(stream, text)?;
            due += pace;
            sleep(due.saturating_duration_since(Instant::now()));
        }
        if ending != Ending::Again {
            return end(stream, is_chat, ending);
        }
    }
}

fn end(stream: &mut TcpStream, is_chat: bool, ending: Ending) -> io::Result<()> {
    match ending {
        Ending::Again | Ending::Cut => Ok(()),
        Ending::Stall => wait(stream),
        Ending::Length => event(stream, &chunk(is_chat, "", Some("length"))),
        Ending::Stop => {
            event(stream, &chunk(is_chat, "", Some("stop")))?;
            wait(stream)
        }
        Ending::Done => {
            event(stream, &chunk(is_chat, "", Some("stop")))?;
            event(stream, &json!({"choices": [], "usage": {"prompt_tokens": 7}}).to_string())?;
            event(stream, "[DONE]")?;
            stream.write_all(b"0\r\n\r\n")
        }
    }
}

fn chunk(is_chat: bool, text: &str, reason: Option<&str>) -> String {
    let choice = match is_chat {
        true => json!({"index": 0, "delta": {"content": text}, "finish_reason": reason}),
        false => json!({"index": 0, "text": text, "finish_reason": reason}),
    };
    json!({"id": "cmpl-1", "choices": [choice]}).to_string()
}

fn event(stream: &mut TcpStream, data: &str) -> io::Result<()> {
    write!(stream, "{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8)
}

/// Waits until the client leaves.
fn wait(stream: &mut TcpStream) -> io::Result<()> {
    stream.read(&mut [0]).map(|_| ())
}

fn read(stream: &mut TcpStream) -> io::Result<Asked> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let len = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let body = &bytes[end + 4..];
            if body.len() >= len.unwrap_or(0) {
                let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body)? };
                return Ok(Asked { head, body, sent: Vec::new() });
            }
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&piece[..n]),
        }
    }
}
