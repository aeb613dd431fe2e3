//! Bodies of answers, whole or while they are made.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::{HeaderMap, Response};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep, timeout};

/// Pieces of a streamed answer that wait for the connection.
const PIECES: usize = 4;
/// Time between the last piece of an aborted answer and the end of its connection, which discards what
/// has not reached the client by then.
const LINGER: Duration = Duration::from_millis(200);

/// An answer.
pub type Reply = Response<Body>;

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it at once.
    Whole(Option<Bytes>),
    /// Pieces as they come. It ends properly only after [`BodySender::finish`].
    Stream(mpsc::Receiver<Piece>),
    /// No further piece comes; the connection ends when the time is over.
    Cut(Pin<Box<Sleep>>),
    /// Another body, whose progress somebody follows.
    Watched(Box<Body>, Arc<dyn Watcher>),
}

/// Follows the progress of an answer. It is dropped with the body.
pub trait Watcher: Debug + Send + Sync {
    /// Counts bytes that leave.
    fn sent(&self, n_bytes: usize);

    /// Notes that the last part leaves, which a body that is cut off does not have.
    fn ended(&self);
}

/// A part of a streamed body.
#[derive(Debug)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// The end, with trailers.
    End(HeaderMap),
}

/// Sends the pieces of a streamed answer.
#[derive(Debug)]
pub struct BodySender {
    sender: mpsc::Sender<Piece>,
    stall_timeout: Duration,
}

/// Why a piece of a streamed answer cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The client has left.
    Gone,
    /// The client takes too long to receive.
    Slow,
}

/// The error that ends the body of an aborted answer.
#[derive(Debug)]
pub struct BodyAborted;

impl std::fmt::Display for BodyAborted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer was cut off")
    }
}

impl std::error::Error for BodyAborted {}

impl Body {
    /// Creates a streamed body; sending fails if the client receives nothing for `stall_timeout`.
    pub fn stream(stall_timeout: Duration) -> (BodySender, Self) {
        let (sender, receiver) = mpsc::channel(PIECES);
        (BodySender { sender, stall_timeout }, Self::Stream(receiver))
    }

    /// Returns the bytes of a body that is whole; a stream has none yet.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.unwrap_or_default(),
            Self::Watched(body, watcher) => {
                let bytes = body.into_bytes();
                watcher.sent(bytes.len());
                bytes
            }
            Self::Stream(_) | Self::Cut(_) => Bytes::new(),
        }
    }

    /// Lets somebody follow its progress.
    pub fn watched(self, watcher: Arc<dyn Watcher>) -> Self {
        Self::Watched(Box::new(self), watcher)
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl BodySender {
    /// Sends bytes.
    ///
    /// # Errors
    /// The client has left or is too slow.
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), SendError> {
        self.push(Piece::Data(bytes.into())).await
    }

    /// Ends the body. If it is dropped without this, it is aborted, which clients can see.
    ///
    /// # Errors
    /// The client has left or is too slow.
    pub async fn finish(self, trailers: HeaderMap) -> Result<(), SendError> {
        self.push(Piece::End(trailers)).await
    }

    /// Waits until the client has left.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    async fn push(&self, piece: Piece) -> Result<(), SendError> {
        match timeout(self.stall_timeout, self.sender.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(SendError::Gone),
            Err(_) => Err(SendError::Slow),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        let body = self.get_mut();
        loop {
            match body {
                Self::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
                Self::Watched(body, watcher) => {
                    let polled = Pin::new(&mut **body).poll_frame(cx);
                    if let Poll::Ready(Some(Ok(frame))) = &polled {
                        watcher.sent(frame.data_ref().map_or(0, Bytes::len));
                    }
                    if body.is_end_stream() {
                        watcher.ended();
                    }
                    return polled;
                }
                Self::Cut(wait) => return wait.as_mut().poll(cx).map(|()| Some(Err(BodyAborted))),
                Self::Stream(pieces) => match ready!(pieces.poll_recv(cx)) {
                    Some(Piece::Data(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Some(Piece::End(trailers)) => {
                        *body = Self::Whole(None);
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                    None => *body = Self::Cut(Box::pin(sleep(LINGER))),
                },
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Watched(body, _) => body.is_end_stream(),
            Self::Stream(_) | Self::Cut(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Watched(body, _) => body.size_hint(),
            Self::Stream(_) | Self::Cut(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_body_that_is_cut_off_lets_its_data_leave_first() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (pieces, mut body) = Body::stream(Duration::from_secs(1));
            pieces.send("audio").await.unwrap();
            drop(pieces);
            let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "audio");
            let is_pending = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())).await;
            assert!(is_pending, "hyper discards what it has not written when a body fails");
            assert!(poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().is_err());
        });
    }
}
