//! The thread that steps the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use melisma::snac::{Engine, Noise, StreamId};
use melisma::{Error, Result};

use super::{Block, Capacity, Due, Frame, Key, Row, Shared, State, Step};
use crate::metrics::Stage;

pub(super) struct Worker {
    shared: Arc<Shared>,
    engine: Engine,
    capacity: Capacity,
    /// The engine's name of each stream, and when its newest frame arrived.
    streams: BTreeMap<Key, Live>,
}

#[derive(Debug, Clone, Copy)]
struct Live {
    id: StreamId,
    arrived: Instant,
}

/// One turn's work.
struct Turn {
    closing: Vec<Key>,
    opening: Vec<(Key, Noise)>,
    step: Option<Step<Frame>>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, engine: Engine, capacity: Capacity) -> Self {
        Self { shared, engine, capacity, streams: BTreeMap::new() }
    }

    pub(super) fn run(mut self) {
        while let Some(turn) = self.wait() {
            turn.closing.into_iter().for_each(|key| self.close(key));
            for (key, noise) in turn.opening {
                if let Err(error) = self.open(key, noise) {
                    self.fail(&[key], &error);
                }
            }
            match turn.step {
                Some(Step::Frames(rows)) => {
                    let keys: Vec<Key> = rows.iter().map(|row| row.key).collect();
                    if let Err(error) = self.step(rows) {
                        self.fail(&keys, &error);
                    }
                }
                Some(Step::End(key)) => {
                    if let Err(error) = self.end(key) {
                        self.fail(&[key], &error);
                    }
                }
                None => {}
            }
        }
    }

    /// Waits for something to do; `None` when the batcher is dropped.
    fn wait(&self) -> Option<Turn> {
        let mut state = self.shared.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            let (closing, opening) = (std::mem::take(&mut state.closing), std::mem::take(&mut state.opening));
            let step = state.schedule.next(self.capacity.step_frames);
            if step.is_some() || !closing.is_empty() || !opening.is_empty() {
                return Some(Turn { closing, opening, step });
            }
            state = self.shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&mut self, key: Key, noise: Noise) -> Result<()> {
        if self.shared.lock().lanes.contains_key(&key) {
            let id = self.engine.open(noise)?;
            self.streams.insert(key, Live { id, arrived: Instant::now() });
        }
        Ok(())
    }

    /// Frees the slot of the engine first and the place for a new stream after it.
    fn close(&mut self, key: Key) {
        if let Some(live) = self.streams.remove(&key) {
            // It fails only for a stream that has ended, whose slot is free already.
            let _ = self.engine.close(live.id);
        }
        let lane = self.shared.lock().lanes.remove(&key);
        if let Some(lane) = lane {
            lane.room.close();
        }
    }

    fn fail(&mut self, keys: &[Key], error: &Error) {
        for &key in keys {
            if let Some(lane) = self.shared.lock().lanes.get(&key) {
                let failure = Error::new(error.kind(), error.to_string());
                *lane.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
            self.shared.lock().schedule.close(key);
            self.close(key);
        }
    }

    fn step(&mut self, rows: Vec<Row<Frame>>) -> Result<()> {
        let metrics = Arc::clone(&self.shared.metrics);
        let populating = Instant::now();
        // A stream that was closed meanwhile has no slot.
        let rows: Vec<Row<Frame>> = rows.into_iter().filter(|row| self.streams.contains_key(&row.key)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let mut codes = Vec::with_capacity(rows.len());
        for row in &rows {
            let [first, rest @ ..] = &row.frames[..] else { continue };
            let mut joined = first.frame.codes.clone();
            rest.iter().try_for_each(|due| joined.append(due.frame.codes.frames()))?;
            codes.push(joined);
            if let Some(live) = self.streams.get_mut(&row.key) {
                live.arrived = rest.last().unwrap_or(first).frame.arrived;
            }
        }
        let input: Vec<_> =
            rows.iter().zip(&codes).map(|(row, codes)| (self.streams[&row.key].id, codes.frames())).collect();
        let decoding = Instant::now();
        metrics.stage(Stage::Population, decoding - populating);
        metrics.batch(rows.len());
        let samples = self.engine.step(&input)?;
        let copying = Instant::now();
        metrics.stage(Stage::Decode, copying - decoding);
        let blocks: Vec<Vec<f32>> = (0..rows.len()).map(|row| samples.of(row).to_vec()).collect();
        metrics.stage(Stage::Copy, copying.elapsed());
        let now = self.shared.now();
        let mut state = self.shared.lock();
        for (row, samples) in rows.into_iter().zip(blocks) {
            let is_missed = |due: &&Due<Frame>| due.at < now;
            metrics.missed(row.frames.iter().filter(is_missed).count() as u64);
            if let Some(lane) = state.lanes.get(&row.key) {
                lane.room.add_permits(row.frames.len());
            }
            let arrived = self.streams[&row.key].arrived;
            deliver(&mut state, row.key, Block { samples, arrived, is_last: false });
        }
        Ok(())
    }

    fn end(&mut self, key: Key) -> Result<()> {
        let Some(live) = self.streams.remove(&key) else { return Ok(()) };
        let start = Instant::now();
        let samples = self.engine.finish(live.id)?;
        self.shared.metrics.stage(Stage::Decode, start.elapsed());
        deliver(&mut self.shared.lock(), key, Block { samples, arrived: live.arrived, is_last: true });
        self.close(key);
        Ok(())
    }
}

/// Also after a panic: no client waits for an engine that is gone.
impl Drop for Worker {
    fn drop(&mut self) {
        let open: Vec<Key> = {
            let mut state = self.shared.lock();
            state.is_stopping = true;
            state.lanes.keys().copied().collect()
        };
        self.fail(&open, &Error::unsupported("the server is stopping"));
    }
}

/// Sends a block; a stream takes its next step only when the one after it has room.
fn deliver(state: &mut State, key: Key, block: Block) {
    let Some(lane) = state.lanes.get(&key) else { return };
    if block.samples.is_empty() && !block.is_last {
        return;
    }
    // It fails only if the client has left, which closes the stream.
    let _ = lane.blocks.try_send(block);
    if lane.blocks.capacity() == 0 {
        state.schedule.block(key);
    }
}
