//! Detects that the client of a request has disconnected.
//!
//! A client that has closed its connection and one that has only ended its sending, as `nc -N` does, look
//! the same: the end of its bytes. They differ in what further bytes do: the first client's system answers
//! them with a reset. (It answers TCP's own keepalive like that only after a minute, because it keeps a
//! closed connection that long.) So a client that waits for its answer is sent an interim one, `100
//! Continue`, every [`PROBE_INTERVAL`], which clients of HTTP/1.1 skip, however many there are.
//!
//! hyper has no way to send it, so it is written beside hyper. This is sound as long as hyper has nothing
//! to write itself: from the call of the service to its reply ([`Progress`]), and after the bytes of the
//! answer before have left ([`SocketState::is_blocked`]). The task that moves hyper's bytes is the one that runs
//! this, so neither can change in between.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use hyper::Version;
use tokio::io::Interest;
use tokio::time::{Instant, sleep, sleep_until};

use super::race::{First, race};
use super::socket_state::SocketState;
use super::timeouts::ConnectionTimeouts;

const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How often a client that has ended its sending is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How often the end of the stream is polled for behind unread bytes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// State of the current request.
#[derive(Debug, Default)]
pub struct Progress(AtomicU8);

const IDLE: u8 = 0;
const AWAITING: u8 = 1;
/// Interim responses are not part of HTTP/1.0.
const AWAITING_HTTP_1_0: u8 = 2;
const RESPONDING: u8 = 3;

impl Progress {
    /// Notes that a request has arrived.
    pub fn request_arrived(&self, version: Version) {
        self.0.store(if version == Version::HTTP_11 { AWAITING } else { AWAITING_HTTP_1_0 }, Relaxed);
    }

    /// Notes that the response begins.
    pub fn response_begins(&self) {
        self.0.store(RESPONDING, Relaxed);
    }
}

/// Watches one connection, in the task that moves the connection's bytes.
#[derive(Debug)]
pub struct DisconnectProbe<'a> {
    pub(super) state: Arc<SocketState>,
    pub(super) progress: &'a Progress,
    pub(super) timeouts: ConnectionTimeouts,
}

impl DisconnectProbe<'_> {
    /// Waits until the client has left, or no byte has moved for too long.
    pub async fn disconnected(&self) {
        race(self.idle_timeout(), self.peer_closed()).await;
    }

    async fn peer_closed(&self) {
        self.read_closed().await;
        loop {
            let is_connected = match self.progress.0.load(Relaxed) {
                IDLE => true,
                AWAITING if self.state.is_blocked() => true,
                AWAITING => self.probe(),
                // No probe may be sent, so the response itself has to make progress.
                _ => self.state.moved() + self.timeouts.header > Instant::now(),
            };
            if !is_connected {
                return;
            }
            if let First::A(()) = race(self.reset(), sleep(PROBE_INTERVAL.min(self.timeouts.header))).await {
                return;
            }
        }
    }

    /// Sends a probe and returns whether the client may still read it.
    fn probe(&self) -> bool {
        match self.state.socket().try_write(PROBE) {
            Ok(n) => n == PROBE.len(),
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// Waits until the client has ended its sending, also behind unread bytes.
    async fn read_closed(&self) {
        while self.state.socket().ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_read_closed()) {
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn reset(&self) {
        while self.state.socket().ready(Interest::ERROR).await.is_ok_and(|ready| !ready.is_error()) {
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn idle_timeout(&self) {
        loop {
            let until = self.state.moved() + self.timeouts.idle;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}
