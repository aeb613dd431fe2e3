//! One client's connection: a WebSocket, or a refusal.

use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use melisma::ErrorKind;
use melisma_server::websocket::{End, Incoming, Message, Writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Chain};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep_until, timeout};

use super::{Error, Result};

/// The longest message of the server.
const MESSAGE_BYTES: usize = 1 << 20;
const HEAD_BYTES: usize = 16 << 10;
/// A server that says nothing for so long has failed.
const SILENCE: Duration = Duration::from_secs(30);
/// Any mask will do: it protects proxies, and there are none.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// An open WebSocket.
pub(super) struct Socket {
    pub(super) reader: MessageReader,
    pub(super) writer: OwnedWriteHalf,
}

/// The side that messages come from.
pub(super) struct MessageReader {
    incoming: Incoming<Chain<Cursor<Vec<u8>>, OwnedReadHalf>>,
}

/// What the server answers.
pub(super) enum Answer {
    Open(Socket),
    /// The time from the connection's start to the refusal.
    Refused(Duration),
}

/// Asks for a WebSocket.
pub(super) async fn open(address: SocketAddr, path: &str) -> Result<Answer> {
    let start = Instant::now();
    let asked = timeout(SILENCE, ask(address, path)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let (stream, head, rest) = asked.map_err(|error| Error::io("a connection to the server", error))?;
    match head.split(' ').nth(1) {
        Some("101") => {
            let (read, writer) = stream.into_split();
            let incoming = Incoming::new(Cursor::new(rest).chain(read), Writer::Server, MESSAGE_BYTES);
            Ok(Answer::Open(Socket { reader: MessageReader { incoming }, writer }))
        }
        Some("503") => Ok(Answer::Refused(start.elapsed())),
        _ => Err(Error::new(ErrorKind::Check, format!("{path}: the server answers {head}"))),
    }
}

/// Returns the connection, the answer's head, and what came with it.
async fn ask(address: SocketAddr, path: &str) -> io::Result<(TcpStream, String, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let upgrade = "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n";
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\n{upgrade}sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((stream, String::from_utf8_lossy(&bytes).into_owned(), rest));
        }
        if bytes.len() > HEAD_BYTES || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl MessageReader {
    /// Returns the next message and when it arrived.
    pub(super) async fn next(&mut self) -> Result<(Instant, Message)> {
        let silent = Err(End::Lost(io::ErrorKind::TimedOut.into()));
        let heard = timeout(SILENCE, self.incoming.next()).await.unwrap_or(silent);
        match heard {
            Ok(message) => Ok((Instant::now(), message)),
            Err(end) => Err(Error::new(ErrorKind::Check, format!("the server ended a stream: {end:?}"))),
        }
    }
}

/// Returns a message as a client sends it.
pub(super) fn frame(message: &Message) -> Vec<u8> {
    message.frame(Some(MASK))
}

/// Waits until `at`.
pub(super) async fn until(at: Instant) {
    sleep_until(tokio::time::Instant::from_std(at)).await;
}
