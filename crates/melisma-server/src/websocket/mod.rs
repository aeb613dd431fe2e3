//! WebSockets over upgraded connections.
//!
//! # Why our own?
//!
//! The protocol takes about 350 lines. With our own, every limit is enforced while reading, the bench and the
//! tests use the same code from the client's side, and ten packages are not needed.

pub mod frame;
pub mod handshake;

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::timeout;

pub use frame::{Message, Violation, Writer};

/// Bytes per read.
const READ_LEN: usize = 16 << 10;

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

    /// Returns the next message. Dropping the future loses nothing.
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
/// ends the connection.
#[derive(Debug)]
pub struct Outgoing<W> {
    sink: Mutex<Sink<W>>,
    stall_timeout: Duration,
}

/// The client does not receive in time, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendTimeout;

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    /// Writes to `stream`.
    pub fn new(stream: W, stall_timeout: Duration) -> Self {
        Self { sink: Mutex::new(Sink { stream, unsent: Vec::new() }), stall_timeout }
    }

    /// Sends a message, after those of other tasks. Dropping the future leaves no half of it behind.
    ///
    /// # Errors
    /// The client is too slow or gone.
    pub async fn send(&self, message: Message) -> Result<(), SendTimeout> {
        let frame = message.frame(None);
        let writing = async { self.sink.lock().await.write(frame).await };
        match timeout(self.stall_timeout, writing).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(SendTimeout),
        }
    }

    /// Sends a last message, if there is one, and closes the connection, without waiting for either.
    pub fn end(self, last: Option<Message>)
    where
        W: Send + 'static,
    {
        tokio::spawn(async move {
            let mut sink = self.sink.into_inner();
            let closing = async {
                if let Some(last) = last {
                    sink.write(last.frame(None)).await?;
                }
                sink.stream.shutdown().await
            };
            // The client is gone, so an error has no reader.
            let _ = timeout(self.stall_timeout, closing).await;
        });
    }
}

#[derive(Debug)]
struct Sink<W> {
    stream: W,
    /// The rest of a message whose sender was dropped.
    unsent: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Sink<W> {
    async fn write(&mut self, frame: Vec<u8>) -> io::Result<()> {
        if self.unsent.is_empty() {
            self.unsent = frame;
        } else {
            self.unsent.extend_from_slice(&frame);
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => drop(self.unsent.drain(..n)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn a_dropped_sender_leaves_whole_messages() {
        run(async {
            let (near, far) = duplex(100);
            let outgoing = Outgoing::new(near, Duration::from_secs(5));
            let long = Message::Binary(vec![7; 1000]);
            // It cannot end: nobody reads.
            assert!(timeout(Duration::from_millis(20), outgoing.send(long.clone())).await.is_err());
            let mut incoming = Incoming::new(far, Writer::Server, 1 << 20);
            let reading = tokio::spawn(async move { [incoming.next().await.unwrap(), incoming.next().await.unwrap()] });
            let short = Message::Text("short".to_owned());
            outgoing.send(short.clone()).await.unwrap();
            assert_eq!(reading.await.unwrap(), [long, short]);
        });
    }

    #[test]
    fn a_client_that_does_not_receive_is_given_up() {
        run(async {
            let (near, _far) = duplex(100);
            let outgoing = Outgoing::new(near, Duration::from_millis(20));
            assert_eq!(outgoing.send(Message::Binary(vec![0; 1000])).await, Err(SendTimeout));
        });
    }

    #[test]
    fn the_end_is_a_close_message_and_the_end_of_the_stream() {
        run(async {
            let (near, mut far) = duplex(100);
            Outgoing::new(near, Duration::from_secs(5)).end(Some(Message::Close(Some((1000, String::new())))));
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).await.unwrap();
            assert_eq!(bytes, [0x88, 2, 3, 0xe8]);
        });
    }
}
