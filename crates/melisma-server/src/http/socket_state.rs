//! The part of a connection that is visible outside hyper.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use melisma::lock::{Mutex, MutexGuard};
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::Instant;

use super::gate::{Gate, Passed};

/// Bytes per read.
const READ_LEN: usize = 16 << 10;

/// The part of a connection that is visible outside hyper.
#[derive(Debug)]
pub struct SocketState {
    socket: OwnedReadHalf,
    gate: Mutex<Gate>,
    start: Instant,
    /// When a byte last moved, since the start.
    moved_ms: AtomicU64,
    is_blocked: AtomicBool,
    has_lingered: AtomicBool,
}

impl SocketState {
    /// Returns the state of a connection that begins at `start`.
    pub fn new(socket: OwnedReadHalf, start: Instant) -> Self {
        Self {
            socket,
            gate: Mutex::default(),
            start,
            moved_ms: AtomicU64::new(0),
            is_blocked: AtomicBool::new(false),
            has_lingered: AtomicBool::new(false),
        }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        self.socket.as_ref()
    }

    /// Returns what waits to be passed on.
    pub fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock()
    }

    /// Returns when a byte last moved.
    pub fn moved(&self) -> Instant {
        self.start + Duration::from_millis(self.moved_ms.load(Relaxed))
    }

    /// Returns whether bytes wait for the socket to take them.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    /// Returns whether this was asked before.
    pub fn has_lingered(&self) -> bool {
        self.has_lingered.swap(true, Relaxed)
    }

    /// Notes that bytes moved. The end of a client's bytes does not count.
    pub fn note(&self, n_bytes: usize) {
        if n_bytes > 0 {
            self.moved_ms.store(self.start.elapsed().as_millis() as u64, Relaxed);
        }
    }

    /// Notes whether bytes wait for the socket to take them.
    pub fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Relaxed);
    }

    /// Reads what the gate passes on.
    pub fn poll_read(&self, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut gate = self.gate();
        loop {
            if gate.pass(to) != Passed::Nothing {
                return Poll::Ready(Ok(()));
            }
            ready!(self.socket().poll_read_ready(cx))?;
            let mut bytes = [0; READ_LEN];
            match self.socket.try_read(&mut bytes) {
                Ok(0) => gate.end(),
                Ok(n) => gate.take(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
