//! Whether the client of a request is still there.
//!
//! A client that has closed its connection and one that has only ended its sending, as `nc -N` does, look
//! the same: the end of its bytes. They differ in what further bytes do: the first client's system answers
//! them with a reset. (It answers TCP's own keepalive like that only after a minute, because it keeps a
//! closed connection that long.) So a client that waits for its answer is sent an interim one, `100
//! Continue`, every [`AGAIN`], which clients of HTTP/1.1 skip, however many there are.
//!
//! hyper has no way to send it, so it is written beside hyper. This is sound as long as hyper has nothing
//! to write itself: from the call of the service to its reply ([`Progress`]), and after the bytes of the
//! answer before have left ([`Line::is_blocked`]). The task that moves hyper's bytes is the one that runs
//! this, so neither can change in between.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use hyper::Version;
use tokio::io::Interest;
use tokio::time::{Instant, sleep, sleep_until};

use super::line::Line;
use super::race::{First, race};
use super::times::Times;

const QUESTION: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How often a client that sends no more is asked.
const AGAIN: Duration = Duration::from_secs(2);
/// How often the end is looked for behind bytes that are not read yet.
const LOOK: Duration = Duration::from_millis(100);

/// How far the answer to the current request is.
#[derive(Debug, Default)]
pub struct Progress(AtomicU8);

const NONE: u8 = 0;
const AWAITED: u8 = 1;
/// Awaited by a client that knows no interim answers.
const AWAITED_OLD: u8 = 2;
const BEGUN: u8 = 3;

impl Progress {
    /// A request has come.
    pub fn ask(&self, version: Version) {
        self.0.store(if version == Version::HTTP_11 { AWAITED } else { AWAITED_OLD }, Relaxed);
    }

    /// Its answer begins.
    pub fn answer(&self) {
        self.0.store(BEGUN, Relaxed);
    }
}

/// The watch over one connection. It runs in the task that moves the connection's bytes.
#[derive(Debug)]
pub struct Presence<'a> {
    pub(super) line: Arc<Line>,
    pub(super) progress: &'a Progress,
    pub(super) times: Times,
}

impl Presence<'_> {
    /// Waits until the client has left, or no byte has moved for too long.
    pub async fn lost(&self) {
        race(self.silence(), self.left()).await;
    }

    async fn left(&self) {
        self.end().await;
        loop {
            let is_here = match self.progress.0.load(Relaxed) {
                NONE => true,
                AWAITED if self.line.is_blocked() => true,
                AWAITED => self.ask(),
                // Nothing can be asked, so the client has to take what it gets.
                _ => self.line.moved() + self.times.header > Instant::now(),
            };
            if !is_here {
                return;
            }
            if let First::A(()) = race(self.reset(), sleep(AGAIN.min(self.times.header))).await {
                return;
            }
        }
    }

    /// Sends the question, and tells whether somebody may read it.
    fn ask(&self) -> bool {
        match self.line.socket().try_write(QUESTION) {
            Ok(n) => n == QUESTION.len(),
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// Waits for the end of the client's bytes, also behind some that nobody reads.
    async fn end(&self) {
        while self.line.socket().ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_read_closed()) {
            sleep(LOOK).await;
        }
    }

    async fn reset(&self) {
        while self.line.socket().ready(Interest::ERROR).await.is_ok_and(|ready| !ready.is_error()) {
            sleep(LOOK).await;
        }
    }

    async fn silence(&self) {
        loop {
            let until = self.line.moved() + self.times.idle;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}
