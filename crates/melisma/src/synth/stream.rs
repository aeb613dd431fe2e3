//! Live music: blocks of 10 ms without end, with notes and parameters that arrive while it plays.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::bus::{Bus, BusConfig};
use super::capture::Capture;
use super::effect::same_len;
use super::engine::{Engine, EngineConfig, Stem};
use super::event::{Action, Event, check};
use crate::runtime::device::Queue;
use crate::{Error, Result};

/// Blocks per second.
const BLOCKS_PER_SECOND: u32 = 100;
/// Actions that can wait for the next block.
const INBOX: usize = 1024;

/// One listener's music: voices, then a bus that gets the same events. Rendering a block allocates nothing and takes no
/// lock; it may wait briefly for a remote that is putting an action into the inbox.
#[derive(Debug)]
pub struct Stream {
    engine: Engine,
    bus: Option<Bus>,
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
#[non_exhaustive]
pub struct Played<'a> {
    /// Counts blocks from 0.
    pub number: u64,
    /// The number of the voices' first sample, which is heard [`Stream::latency`] samples later.
    pub position: u64,
    /// Left, for effects to work on in place.
    pub left: &'a mut [f32],
    /// Right.
    pub right: &'a mut [f32],
}

impl Remote {
    /// Sends an action. It happens at the first sample of the block that is rendered next; of the
    /// one after that, if one is being rendered now.
    ///
    /// # Errors
    /// A figure of it is outside of its range, the stream is gone, or too many actions wait.
    pub fn send(&self, action: Action) -> Result<()> {
        check(&action)?;
        self.outbox.try_send(action).map_err(|_| {
            Error::invalid(format!("the stream is gone, or {INBOX} actions wait for its next block"))
                .with_hint("send later actions closer to their time")
        })
    }
}

impl Stream {
    /// Returns a stream and its remote, with the bus of [`BusConfig::new`].
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn new(config: EngineConfig) -> Result<(Self, Remote)> {
        Self::with_bus(config, BusConfig::new(config.sample_rate))
    }

    /// Returns a stream with the given bus.
    ///
    /// # Errors
    /// As [`Engine::new`] and [`Bus::new`], or the rates differ.
    pub fn with_bus(config: EngineConfig, bus: BusConfig) -> Result<(Self, Remote)> {
        if config.sample_rate != bus.sample_rate {
            let rates = [config.sample_rate, bus.sample_rate];
            return Err(Error::invalid(format!("synth: voices have {} Hz, the bus has {} Hz", rates[0], rates[1]))
                .with_hint("give both the same rate"));
        }
        let engine = Engine::new(config)?;
        Ok(Self::build(engine, Some(Bus::new(bus)?)))
    }

    /// Returns a stream of dry voices, for callers with their own bus: gain, reverb and delay have no effect.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn dry(config: EngineConfig) -> Result<(Self, Remote)> {
        Ok(Self::build(Engine::new(config)?, None))
    }

    fn build(engine: Engine, bus: Option<Bus>) -> (Self, Remote) {
        let (outbox, inbox) = sync_channel(INBOX);
        let len = (engine.config().sample_rate / BLOCKS_PER_SECOND) as usize;
        let (left, right) = (vec![0.0; len], vec![0.0; len]);
        let stream = Self { engine, bus, inbox, left, right, n_blocks: 0, n_lost: 0, capture: None };
        (stream, Remote { outbox })
    }

    /// Returns the latency of the limiter, in samples.
    pub fn latency(&self) -> usize {
        self.bus.as_ref().map_or(0, Bus::latency)
    }

    /// Returns the engine, for events that are planned ahead.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the number of samples of a block.
    pub fn block_len(&self) -> usize {
        self.left.len()
    }

    /// Returns how many actions found the engine's queue full.
    pub fn lost(&self) -> u64 {
        self.n_lost
    }

    /// Keeps the last blocks as they are rendered, from now on; the files are written a last time when the stream is dropped.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn capture_to(&mut self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        self.capture = Some(Capture::start(folder, self.engine.config().sample_rate)?);
        Ok(())
    }

    /// Ends the capture, if there is one.
    ///
    /// # Errors
    /// Its files could not be written.
    pub fn finish_capture(&mut self) -> Result<()> {
        self.capture.take().map_or(Ok(()), Capture::finish)
    }

    /// Renders the next block.
    pub fn next_block(&mut self) -> Played<'_> {
        let position = self.engine.position();
        let (mut left, mut right) = (std::mem::take(&mut self.left), std::mem::take(&mut self.right));
        self.render(&mut left, &mut right);
        (self.left, self.right) = (left, right);
        self.n_blocks += 1;
        Played { number: self.n_blocks - 1, position, left: &mut self.left, right: &mut self.right }
    }

    /// Renders the next samples, for callers with another block length; the bits are the same.
    /// Actions of remotes happen at the first of them. The shorter side counts.
    pub fn render(&mut self, left: &mut [f32], right: &mut [f32]) {
        let [left, right] = same_len(left, right);
        let position = self.engine.position();
        // Actions that arrive meanwhile wait for the next block.
        for action in self.inbox.try_iter().take(INBOX) {
            if self.engine.push(Event { at: position, action }).is_err() {
                self.n_lost += 1;
            }
        }
        match &mut self.bus {
            None => self.engine.render(left, right),
            Some(bus) => {
                bus.prefetch(left.len());
                let mut done = 0;
                while done < left.len() {
                    let out = Stem { left: &mut left[done..], right: &mut right[done..] };
                    let n = self.engine.render_next(out, |parameter, value| bus.set(parameter, value));
                    bus.process(&mut left[done..done + n], &mut right[done..done + n]);
                    done += n;
                }
            }
        }
        if let Some(capture) = &mut self.capture {
            capture.push(left, right);
        }
    }

    /// Returns the block that was rendered last.
    pub fn last_block(&mut self) -> Played<'_> {
        let position = self.engine.position().saturating_sub(self.left.len() as u64);
        let number = self.n_blocks.saturating_sub(1);
        Played { number, position, left: &mut self.left, right: &mut self.right }
    }
}

/// Renders the next block of every stream, shared out to the threads of a CPU queue. Each has the
/// bits that it has alone.
pub fn render_all(queue: &Queue, streams: &mut [Stream]) {
    queue.each(streams, |stream| {
        stream.next_block();
    });
}
