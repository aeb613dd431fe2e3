//! A connection that fails when no byte moves for too long, in either direction.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// A socket with a limit on silence.
#[derive(Debug)]
pub struct Idle {
    socket: TcpStream,
    limit: Duration,
    /// When a byte last moved.
    moved: Instant,
    /// One alarm for each side: either may wait alone.
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
}

impl Idle {
    /// Fails reads and writes of `socket` after `limit` without a byte.
    pub fn new(socket: TcpStream, limit: Duration) -> Self {
        let moved = Instant::now();
        let alarm = || Box::pin(sleep_until(moved + limit));
        Self { socket, limit, moved, reading: alarm(), writing: alarm() }
    }

    /// Notes whether bytes moved; a side that waits fails when the silence lasts too long.
    fn watch<T>(&mut self, side: Side, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.moved = Instant::now();
            return polled;
        }
        let until = self.moved + self.limit;
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
        let polled = Pin::new(&mut self.socket).poll_read(cx, to);
        self.watch(Side::Read, polled, cx)
    }
}

impl AsyncWrite for Idle {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, from);
        self.watch(Side::Write, polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, from);
        self.watch(Side::Write, polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
