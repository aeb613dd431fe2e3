//! Live music: blocks of 10 ms without end, with notes and parameters that come while it plays.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::capture::Capture;
use super::engine::{Engine, EngineConfig};
use super::event::{Action, Event, check};
use crate::runtime::device::Queue;
use crate::{Error, Result};

/// Blocks per second.
const BLOCKS_PER_SECOND: u32 = 100;
/// Actions that can wait for the next block.
const INBOX: usize = 1024;

/// One listener's music. Rendering a block allocates nothing and waits for nobody.
#[derive(Debug)]
pub struct Stream {
    engine: Engine,
    inbox: Receiver<Action>,
    left: Vec<f32>,
    right: Vec<f32>,
    n_blocks: u64,
    n_lost: u64,
    capture: Option<Capture>,
}

/// Sends actions to a stream from another thread. Clones send to the same stream.
#[derive(Debug, Clone)]
pub struct Remote {
    outbox: SyncSender<Action>,
}

/// A block as it was played.
#[derive(Debug)]
pub struct Played<'a> {
    /// Counts blocks from 0.
    pub number: u64,
    /// The first sample's number.
    pub position: u64,
    /// Left, for effects to work on in place.
    pub left: &'a mut [f32],
    /// Right.
    pub right: &'a mut [f32],
}

impl Remote {
    /// The action happens at the first sample of the block that is rendered next; of the one after that, if one is being
    /// rendered now.
    ///
    /// # Errors
    /// A figure of it is outside of its range, the stream is gone, or too many actions wait.
    pub fn send(&self, action: Action) -> Result<()> {
        check(&action)?;
        self.outbox.try_send(action).map_err(|_| {
            Error::invalid(format!("the stream is gone, or {INBOX} actions wait for its next block"))
                .with_hint("send what comes later when its time is near")
        })
    }
}

impl Stream {
    /// A stream and its remote.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn new(config: EngineConfig) -> Result<(Self, Remote)> {
        let engine = Engine::new(config)?;
        let (outbox, inbox) = sync_channel(INBOX);
        let len = (config.sample_rate / BLOCKS_PER_SECOND) as usize;
        let stream =
            Self { engine, inbox, left: vec![0.0; len], right: vec![0.0; len], n_blocks: 0, n_lost: 0, capture: None };
        Ok((stream, Remote { outbox }))
    }

    /// The engine, for what is planned ahead.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Samples of a block.
    pub fn block_len(&self) -> usize {
        self.left.len()
    }

    /// Actions that found the engine's queue full.
    pub fn lost(&self) -> u64 {
        self.n_lost
    }

    /// Keeps the last blocks as they are rendered, from now on; the files are written a last time when the stream is dropped.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn capture_to(&mut self, folder: &Path) -> Result<()> {
        self.capture = Some(Capture::start(folder, self.engine.config().sample_rate)?);
        Ok(())
    }

    /// Ends a capture; nothing happens where there is none.
    ///
    /// # Errors
    /// Its files could not be written.
    pub fn finish_capture(&mut self) -> Result<()> {
        self.capture.take().map_or(Ok(()), Capture::finish)
    }

    /// Renders the next block.
    pub fn next_block(&mut self) -> Played<'_> {
        let position = self.engine.position();
        while let Ok(action) = self.inbox.try_recv() {
            if self.engine.push(Event { at: position, action }).is_err() {
                self.n_lost += 1;
            }
        }
        self.engine.render(&mut self.left, &mut self.right);
        if let Some(capture) = &mut self.capture {
            capture.push(&self.left, &self.right);
        }
        self.n_blocks += 1;
        Played { number: self.n_blocks - 1, position, left: &mut self.left, right: &mut self.right }
    }

    /// The block that was rendered last.
    pub fn last_block(&mut self) -> Played<'_> {
        let position = self.engine.position().saturating_sub(self.left.len() as u64);
        let number = self.n_blocks.saturating_sub(1);
        Played { number, position, left: &mut self.left, right: &mut self.right }
    }
}

/// The next block of every stream, shared out to the threads of a CPU queue. Each has the bits that it has alone.
pub fn render_all(queue: &Queue, streams: &mut [Stream]) {
    queue.each(streams, |stream| {
        stream.next_block();
    });
}
