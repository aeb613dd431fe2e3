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

use super::line::Line;
use super::linger::linger;
use super::refusal::Refuse;
use crate::admission::Place;

/// A socket with a limit on silence.
#[derive(Debug)]
pub struct Idle {
    line: Arc<Line>,
    write: OwnedWriteHalf,
    limit: Duration,
    /// One alarm for each side: either may wait alone.
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
    refuse: Refuse,
    end: End,
    /// The connection's place, which is free when its socket is.
    _place: Arc<Place>,
}

/// How far the end of a connection is.
enum End {
    /// It has not begun.
    Open,
    /// What is left of a refusal.
    Refusal(Vec<u8>),
    /// The server's half has ended.
    Linger(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("End")
    }
}

impl Idle {
    /// Fails reads and writes of `socket` after `limit` without a byte.
    pub fn new(socket: TcpStream, limit: Duration, refuse: Refuse, place: Arc<Place>) -> Self {
        let start = Instant::now();
        let alarm = || Box::pin(sleep_until(start + limit));
        let (socket, write) = socket.into_split();
        let line = Line::new(socket, start);
        let (reading, writing) = (alarm(), alarm());
        Self { line: Arc::new(line), write, limit, reading, writing, refuse, end: End::Open, _place: place }
    }

    /// The connection, for those who watch it.
    pub fn line(&self) -> Arc<Line> {
        Arc::clone(&self.line)
    }

    /// A side that waits fails when no byte has moved for too long.
    fn watch<T>(&mut self, side: Side, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if matches!(side, Side::Write) {
            self.line.set_blocked(polled.is_pending());
        }
        if polled.is_ready() {
            return polled;
        }
        let until = self.line.moved() + self.limit;
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

impl AsyncRead for Idle {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let polled = self.line.poll_read(cx, to);
        self.line.note(to.filled().len() - before);
        self.watch(Side::Read, polled, cx)
    }
}

impl AsyncWrite for Idle {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write(cx, from);
        if let Poll::Ready(Ok(n)) = polled {
            self.line.note(n);
        }
        self.watch(Side::Write, polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    /// Says why a head was not passed on, ends the server's half, and waits for the client.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.end {
                End::Open => {
                    let refusal = self.line.gate().take_refusal();
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
                    let line = self.line();
                    self.end = End::Linger(Box::pin(async move { linger(&line).await }));
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
            self.line.note(n);
        }
        self.watch(Side::Write, polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }
}
