//! Whether the client of a request is still there.
//!
//! A client that closes its connection and one that only ends its sending look the same: the end of
//! its bytes. The first answers further bytes with a reset. So a client of HTTP/1.1 that waits for its
//! answer is sent `100 Continue`, which every client ignores, and it has left if a reset comes back.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use hyper::Version;
use tokio::io::Interest;
use tokio::time::{Instant, sleep, sleep_until};

use super::accept::Times;
use super::idle::Line;
use super::race::race;

const QUESTION: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
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
        race(self.silence(self.times.idle), self.left()).await;
    }

    async fn left(&self) {
        self.end().await;
        // The task is woken whenever the progress changes.
        let progress = poll_fn(|_| match self.progress.0.load(Relaxed) {
            NONE => Poll::Pending,
            progress => Poll::Ready(progress),
        });
        let is_asked = progress.await == AWAITED && !self.line.is_blocked();
        if is_asked && self.line.socket().try_write(QUESTION).is_ok_and(|n| n < QUESTION.len()) {
            return;
        }
        let patience = if is_asked { self.times.idle } else { self.times.header };
        race(self.reset(), self.silence(patience)).await;
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

    async fn silence(&self, limit: Duration) {
        loop {
            let until = self.line.moved() + limit;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}
