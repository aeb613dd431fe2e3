//! A connection that fails when no byte moves for too long, in either direction.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A socket with a limit on silence.
#[derive(Debug)]
pub struct Idle {
    line: Arc<Line>,
    write: OwnedWriteHalf,
    limit: Duration,
    /// One alarm for each side: either may wait alone.
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
}

/// What others see of a connection whose bytes hyper moves.
#[derive(Debug)]
pub struct Line {
    socket: OwnedReadHalf,
    start: Instant,
    /// When a byte last moved, since the start.
    moved_ms: AtomicU64,
    is_blocked: AtomicBool,
}

impl Line {
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        self.socket.as_ref()
    }

    /// When a byte last moved.
    pub fn moved(&self) -> Instant {
        self.start + Duration::from_millis(self.moved_ms.load(Relaxed))
    }

    /// Whether bytes wait for the socket to take them.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    fn poll_read(&self, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket().poll_read_ready(cx))?;
            match self.socket.try_read_buf(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl Idle {
    /// Fails reads and writes of `socket` after `limit` without a byte.
    pub fn new(socket: TcpStream, limit: Duration) -> Self {
        let start = Instant::now();
        let alarm = || Box::pin(sleep_until(start + limit));
        let (socket, write) = socket.into_split();
        let line = Line { socket, start, moved_ms: AtomicU64::new(0), is_blocked: AtomicBool::new(false) };
        Self { line: Arc::new(line), write, limit, reading: alarm(), writing: alarm() }
    }

    /// The connection, for those who watch it.
    pub fn line(&self) -> Arc<Line> {
        Arc::clone(&self.line)
    }

    /// Notes whether bytes moved; a side that waits fails when the silence lasts too long.
    fn watch<T>(&mut self, side: Side, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if matches!(side, Side::Write) {
            self.line.is_blocked.store(polled.is_pending(), Relaxed);
        }
        if polled.is_ready() {
            self.line.moved_ms.store(self.line.start.elapsed().as_millis() as u64, Relaxed);
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
        let polled = self.line.poll_read(cx, to);
        self.watch(Side::Read, polled, cx)
    }
}

impl AsyncWrite for Idle {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write(cx, from);
        self.watch(Side::Write, polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.write).poll_write_vectored(cx, from);
        self.watch(Side::Write, polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }
}
