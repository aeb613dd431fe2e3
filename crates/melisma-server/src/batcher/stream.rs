//! The two halves of a client's stream.

use std::sync::Arc;
use std::time::Instant;

use melisma::snac::Engine;
use melisma::{Error, ErrorKind, Result};
use tokio::sync::{Semaphore, mpsc};

use super::{Failure, Frame, Key, Shared, StepEngine};

/// The sending half of a stream.
#[derive(Debug)]
pub struct Input<E: StepEngine = Engine> {
    shared: Arc<Shared<E>>,
    key: Key,
    room: Arc<Semaphore>,
    failure: Failure,
    is_finished: bool,
}

/// The receiving half of a stream.
#[derive(Debug)]
pub struct Output<E: StepEngine = Engine> {
    shared: Arc<Shared<E>>,
    key: Key,
    blocks: mpsc::Receiver<Block<E::Content>>,
    failure: Failure,
}

/// The output of one step.
#[derive(Debug, Clone)]
pub struct Block<C = Vec<f32>> {
    /// Mono samples, or codes.
    pub content: C,
    /// When the last frame that it needed arrived.
    pub arrived: Instant,
    /// Whether the stream ends with it.
    pub is_last: bool,
}

impl<E: StepEngine> Input<E> {
    pub(super) fn new(shared: Arc<Shared<E>>, key: Key, room: Arc<Semaphore>, failure: Failure) -> Self {
        Self { shared, key, room, failure, is_finished: false }
    }

    /// Pushes frames, one after the other; waits while too many of this stream's frames wait.
    ///
    /// # Errors
    /// The stream has ended: its blocks are no longer received, or the device failed.
    pub async fn push(&self, frames: Vec<E::Frame>) -> Result<()> {
        for content in frames {
            let permit = self.room.acquire().await.map_err(|_| self.reason())?;
            // The batcher returns it when it takes the frame.
            permit.forget();
            let arrived = Instant::now();
            let mut state = self.shared.state.lock();
            let now = self.shared.now();
            state.schedule.push(self.key, now, Frame { content, arrived });
            drop(state);
            self.shared.work.notify_one();
        }
        Ok(())
    }

    /// Returns why the stream takes no more frames; the output gets the same reason.
    fn reason(&self) -> Error {
        let failure = self.failure.lock();
        failure.as_ref().map_or_else(|| Error::new(ErrorKind::Io, "the stream has ended"), copy)
    }

    /// Marks the end of the frames.
    pub fn finish(mut self) {
        self.is_finished = true;
        let now = self.shared.now();
        self.shared.state.lock().schedule.end(self.key, now);
        self.shared.work.notify_one();
    }
}

impl<E: StepEngine> Drop for Input<E> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.shared.state.lock().abandon(self.key);
            self.shared.work.notify_one();
        }
    }
}

impl<E: StepEngine> Output<E> {
    pub(super) fn new(
        shared: Arc<Shared<E>>,
        key: Key,
        blocks: mpsc::Receiver<Block<E::Content>>,
        failure: Failure,
    ) -> Self {
        Self { shared, key, blocks, failure }
    }

    /// Returns the next block, or `None` after the last one.
    ///
    /// # Errors
    /// The device failed, or the server ended the stream.
    pub async fn next(&mut self) -> Result<Option<Block<E::Content>>> {
        let Some(block) = self.blocks.recv().await else {
            return self.failure.lock().as_ref().map_or(Ok(None), |failure| Err(copy(failure)));
        };
        self.shared.state.lock().schedule.unblock(self.key);
        self.shared.work.notify_one();
        Ok(Some(block))
    }
}

impl<E: StepEngine> Drop for Output<E> {
    fn drop(&mut self) {
        self.shared.state.lock().abandon(self.key);
        self.shared.work.notify_one();
    }
}

/// Returns the reason for the other half of the stream.
fn copy(failure: &Error) -> Error {
    Error::new(failure.kind(), failure.to_string())
}
