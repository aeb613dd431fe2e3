//! A client's two ends of a stream.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use melisma::snac::{Codes, Frames};
use melisma::{Error, Kind, Result};
use tokio::sync::{Semaphore, mpsc};

use super::{Failure, Frame, Key, Shared};

/// Where frames go in.
#[derive(Debug)]
pub struct Input {
    shared: Arc<Shared>,
    key: Key,
    room: Arc<Semaphore>,
    is_finished: bool,
}

/// Where samples come out.
#[derive(Debug)]
pub struct Output {
    shared: Arc<Shared>,
    key: Key,
    blocks: mpsc::Receiver<Block>,
    failure: Failure,
}

/// Samples that became final with one step.
#[derive(Debug, Clone)]
pub struct Block {
    /// Mono.
    pub samples: Vec<f32>,
    /// When the last frame that they needed arrived.
    pub arrived: Instant,
    /// Whether the stream ends with them.
    pub is_last: bool,
}

impl Input {
    pub(super) fn new(shared: Arc<Shared>, key: Key, room: Arc<Semaphore>) -> Self {
        Self { shared, key, room, is_finished: false }
    }

    /// Pushes frames, one after the other; waits while too many of this stream's frames wait.
    ///
    /// # Errors
    /// The stream has ended: its samples are no longer received, or the device failed.
    pub async fn push(&self, frames: Frames<'_>) -> Result<()> {
        for frame in frames.chunks(1) {
            let permit = self.room.acquire().await.map_err(|_| gone())?;
            // The batcher returns it when it takes the frame.
            permit.forget();
            let arrived = Instant::now();
            let codes = Codes::from(frame);
            let mut state = self.shared.lock();
            let now = self.shared.now();
            state.schedule.push(self.key, now, Frame { codes, arrived });
            drop(state);
            self.shared.work.notify_one();
        }
        Ok(())
    }

    /// Says that no frame follows.
    pub fn finish(mut self) {
        self.is_finished = true;
        let now = self.shared.now();
        self.shared.lock().schedule.end(self.key, now);
        self.shared.work.notify_one();
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if !self.is_finished {
            self.shared.lock().abandon(self.key);
            self.shared.work.notify_one();
        }
    }
}

impl Output {
    pub(super) fn new(shared: Arc<Shared>, key: Key, blocks: mpsc::Receiver<Block>, failure: Failure) -> Self {
        Self { shared, key, blocks, failure }
    }

    /// The next block, or `None` after the last one.
    ///
    /// # Errors
    /// The device failed, or the server ended the stream.
    pub async fn next(&mut self) -> Result<Option<Block>> {
        let Some(block) = self.blocks.recv().await else {
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            return failure.map_or(Ok(None), Err);
        };
        self.shared.lock().schedule.unblock(self.key);
        self.shared.work.notify_one();
        Ok(Some(block))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.shared.lock().abandon(self.key);
        self.shared.work.notify_one();
    }
}

fn gone() -> Error {
    Error::new(Kind::Io, "the stream has ended")
}
