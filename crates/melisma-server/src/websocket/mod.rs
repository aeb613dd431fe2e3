//! WebSockets over upgraded connections.
//!
//! # Why our own?
//!
//! Frames are a page of code. With our own, every limit is enforced while reading, the bench and the
//! tests use the same code from the client's side, and ten packages are not needed.

pub mod frame;
pub mod handshake;

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub use frame::{Message, Violation, Writer};

/// Bytes per read.
const READ_LEN: usize = 16 << 10;
/// Messages that wait for the connection.
const OUTBOX: usize = 16;

/// The end of a connection.
#[derive(Debug)]
pub enum End {
    /// The other side closed it.
    Closed,
    /// The other side broke the protocol.
    Violation(Violation),
    /// The other side is gone.
    Lost(io::Error),
}

/// The side of a connection that messages come from.
#[derive(Debug)]
pub struct Incoming<R> {
    stream: R,
    reader: frame::Reader,
    bytes: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// Reads messages of `writer`, of at most `limit` bytes each.
    pub fn new(stream: R, writer: Writer, limit: usize) -> Self {
        Self { stream, reader: frame::Reader::new(writer, limit), bytes: vec![0; READ_LEN] }
    }

    /// The next message. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn next(&mut self) -> Result<Message, End> {
        loop {
            match self.reader.message().map_err(End::Violation)? {
                Some(Message::Close(_)) => return Err(End::Closed),
                Some(message) => return Ok(message),
                None => {}
            }
            match self.stream.read(&mut self.bytes).await {
                Ok(0) => return Err(End::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => self.reader.feed(&self.bytes[..n]),
                Err(error) => return Err(End::Lost(error)),
            }
        }
    }
}

/// The side of a connection that messages go to. A message that the client does not receive in time
/// ends the connection; until then only a bounded number wait.
#[derive(Debug, Clone)]
pub struct Outgoing {
    messages: mpsc::Sender<Message>,
    patience: Duration,
}

/// The client does not receive in time, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck;

impl Outgoing {
    /// Starts a task that writes to `stream` until a close message is written.
    pub fn start(mut stream: impl AsyncWrite + Unpin + Send + 'static, patience: Duration) -> Self {
        let (messages, mut waiting) = mpsc::channel::<Message>(OUTBOX);
        tokio::spawn(async move {
            while let Some(message) = waiting.recv().await {
                let frame = message.frame(None);
                let written = timeout(patience, stream.write_all(&frame)).await;
                if !matches!(written, Ok(Ok(()))) || matches!(message, Message::Close(_)) {
                    break;
                }
            }
            waiting.close();
            let _ = timeout(patience, stream.shutdown()).await;
        });
        Self { messages, patience }
    }

    /// Sends a message; waits while too many wait.
    ///
    /// # Errors
    /// The client is too slow or gone.
    pub async fn send(&self, message: Message) -> Result<(), Stuck> {
        match timeout(self.patience, self.messages.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Stuck),
        }
    }

    /// Sends a message if there is room for it at once.
    ///
    /// # Errors
    /// There is none.
    pub fn try_send(&self, message: Message) -> Result<(), Stuck> {
        self.messages.try_send(message).map_err(|_| Stuck)
    }
}
