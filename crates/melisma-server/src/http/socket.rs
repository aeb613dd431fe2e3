//! A connection as hyper sees it: heads are checked before they are passed on, it fails when no byte moves
//! for too long, and its end waits for clients that are still sending.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::{Instant, Sleep, sleep_until};

use super::linger::linger;
use super::responder::RefusalResponder;
use super::socket_state::SocketState;
use crate::admission::Permit;

/// A socket whose reads and writes fail when no byte moves for too long.
#[derive(Debug)]
pub struct Socket {
    state: Arc<SocketState>,
    write: OwnedWriteHalf,
    limit: Duration,
    /// One alarm for each side: either may wait alone.
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
    refuse: RefusalResponder,
    end: End,
    /// Released together with the socket.
    _permit: Arc<Permit>,
}

/// Progress of the shutdown.
enum End {
    /// It has not begun.
    Open,
    /// The rest of a refusal.
    Refusal(Vec<u8>),
    /// The server's half has ended.
    Linger(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("End")
    }
}

impl Socket {
    /// Fails reads and writes of `socket` after `limit` without a byte.
    pub fn new(socket: TcpStream, limit: Duration, refuse: RefusalResponder, permit: Arc<Permit>) -> Self {
        let start = Instant::now();
        let alarm = || Box::pin(sleep_until(start + limit));
        let (socket, write) = socket.into_split();
        let state = SocketState::new(socket, start);
        let (reading, writing) = (alarm(), alarm());
        Self { state: Arc::new(state), write, limit, reading, writing, refuse, end: End::Open, _permit: permit }
    }

    /// Returns the part that can be watched while hyper owns the socket.
    pub fn state(&self) -> Arc<SocketState> {
        Arc::clone(&self.state)
    }

    /// Fails a pending read or write when no byte has moved for too long.
    fn watch<T>(&mut self, side: Side, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if matches!(side, Side::Write) {
            self.state.set_blocked(polled.is_pending());
        }
        if polled.is_ready() {
            return polled;
        }
        let until = self.state.moved() + self.limit;
        let alarm = match side {
            Side::Read => &mut self.reading,
            Side::Write => &mut self.writing,
        };
        if alarm.deadline() < until {
            alarm.as_mut().reset(until);
        }
        match alarm.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Read,
    Write,
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let polled = self.state.poll_read(cx, to);
        self.state.note(to.filled().len() - before);
        self.watch(Side::Read, polled, cx)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write(cx, from);
        if let Poll::Ready(Ok(n)) = polled {
            self.state.note(n);
        }
        self.watch(Side::Write, polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    /// Sends the refusal of a head, if any, ends the server's half, and waits for the client.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.end {
                End::Open => {
                    let refusal = self.state.gate().take_refusal();
                    self.end = End::Refusal(refusal.map(|failure| self.refuse.bytes(&failure)).unwrap_or_default());
                }
                End::Refusal(rest) if !rest.is_empty() => {
                    let rest = std::mem::take(rest);
                    let written = self.as_mut().poll_write(cx, &rest);
                    let n = match written {
                        Poll::Ready(Ok(n)) => n,
                        _ => 0,
                    };
                    self.end = End::Refusal(rest[n..].to_vec());
                    ready!(written)?;
                }
                End::Refusal(_) => {
                    ready!(Pin::new(&mut self.write).poll_shutdown(cx))?;
                    let state = self.state();
                    self.end = End::Linger(Box::pin(async move { linger(&state).await }));
                }
                End::Linger(lingering) => return lingering.as_mut().poll(cx).map(Ok),
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write_vectored(cx, from);
        if let Poll::Ready(Ok(n)) = polled {
            self.state.note(n);
        }
        self.watch(Side::Write, polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }
}
