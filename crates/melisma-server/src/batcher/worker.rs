//! The thread that steps the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use melisma::snac::StreamId;
use melisma::{Error, ErrorKind, Result};

use super::idle::Idle;
use super::{Block, Due, Frame, Key, Row, Shared, State, Step, StepEngine};
use crate::metrics::Stages;

pub(super) struct Worker<E: StepEngine> {
    shared: Arc<Shared<E>>,
    engine: E,
    /// Frames of a step at most.
    step_frames: usize,
    idle: Option<Idle<E>>,
    /// The engine's name of each stream, and when its newest frame arrived.
    streams: BTreeMap<Key, OpenStream>,
}

#[derive(Debug, Clone, Copy)]
struct OpenStream {
    id: StreamId,
    arrived: Instant,
}

/// One turn's work.
struct Turn<E: StepEngine> {
    closing: Vec<Key>,
    opening: Vec<(Key, E::Start)>,
    step: Option<Step<Frame<E::Frame>>>,
    /// Whether to measure the capacity, because there is nothing else to do.
    is_idle: bool,
}

impl<E: StepEngine> Worker<E> {
    pub(super) fn new(shared: Arc<Shared<E>>, engine: E, idle: Option<Idle<E>>) -> Self {
        let step_frames = shared.capacity.lock().capacity.step_frames;
        Self { shared, engine, step_frames, idle, streams: BTreeMap::new() }
    }

    pub(super) fn run(mut self) {
        while let Some(turn) = self.wait() {
            turn.closing.into_iter().for_each(|key| self.close(key));
            for (key, start) in turn.opening {
                if let Err(error) = self.open(key, start) {
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
                Some(Step::Ends(keys)) => {
                    if let Err(error) = self.end(&keys) {
                        self.fail(&keys, &error);
                    }
                }
                None if turn.is_idle => self.measure(),
                None => {}
            }
        }
    }

    /// Measures the capacity again, until a client comes.
    fn measure(&mut self) {
        let Self { shared, engine, step_frames, idle: Some(idle), .. } = self else { return };
        let current = *shared.capacity.lock();
        let is_idle = || shared.metrics.open_streams() == 0 && shared.state.lock().has_no_work();
        // A device that fails is left to the next stream, which reports it.
        let Ok(found) = idle.measure(engine, current, &is_idle) else { return };
        shared.is_lost.store(false, Relaxed);
        if let Some(found) = found {
            *step_frames = found.capacity.step_frames;
            *shared.capacity.lock() = found;
            shared.slots.set_limit(found.capacity.streams);
        }
    }

    /// Waits for something to do; `None` when the batcher is dropped.
    fn wait(&self) -> Option<Turn<E>> {
        let mut quiet_since = Instant::now();
        let mut state = self.shared.state.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            let (closing, opening) = (std::mem::take(&mut state.closing), std::mem::take(&mut state.opening));
            let step = state.schedule.next(self.step_frames);
            if step.is_some() || !closing.is_empty() || !opening.is_empty() {
                return Some(Turn { closing, opening, step, is_idle: false });
            }
            let Some(idle) = self.idle.as_ref().filter(|_| state.channels.is_empty()) else {
                state = self.shared.work.wait(state);
                continue;
            };
            // Music and clips need the machine too.
            if self.shared.metrics.open_streams() > 0 {
                quiet_since = Instant::now();
            }
            let left = idle.due(quiet_since).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(Turn { closing, opening, step, is_idle: true });
            }
            state = self.shared.work.wait_timeout_while(state, left, |state| state.has_no_work()).0;
        }
    }

    fn open(&mut self, key: Key, start: E::Start) -> Result<()> {
        if self.shared.state.lock().channels.contains_key(&key) {
            let id = self.engine.open(start)?;
            self.streams.insert(key, OpenStream { id, arrived: Instant::now() });
        }
        Ok(())
    }

    /// Frees the engine's slot first and the queue's after it.
    fn close(&mut self, key: Key) {
        if let Some(live) = self.streams.remove(&key) {
            // It fails only for a stream that has ended, whose slot is free already.
            let _ = self.engine.close(live.id);
        }
        let channel = self.shared.state.lock().channels.remove(&key);
        if let Some(channel) = channel {
            channel.room.close();
        }
    }

    fn fail(&mut self, keys: &[Key], error: &Error) {
        if error.kind() == ErrorKind::Device {
            self.shared.is_lost.store(true, Relaxed);
        }
        for &key in keys {
            if let Some(channel) = self.shared.state.lock().channels.get(&key) {
                let failure = Error::new(error.kind(), error.to_string());
                *channel.failure.lock() = Some(failure);
            }
            self.shared.state.lock().schedule.close(key);
            self.close(key);
        }
    }

    fn step(&mut self, rows: Vec<Row<Frame<E::Frame>>>) -> Result<()> {
        let (mut input, mut dues) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for Row { key, frames } in rows {
            // A stream that was closed meanwhile has no slot.
            let Some(live) = self.streams.get_mut(&key) else { continue };
            live.arrived = frames.last().map_or(live.arrived, |due| due.frame.arrived);
            dues.push((key, frames.iter().map(|due| due.at).collect::<Vec<Duration>>()));
            input.push((live.id, frames.into_iter().map(|due: Due<_>| due.frame.content).collect()));
        }
        if input.is_empty() {
            return Ok(());
        }
        let metrics = &self.shared.metrics;
        let mut stages = Stages::new(metrics);
        let contents = self.engine.step(&input, &mut stages)?;
        self.shared.is_lost.store(false, Relaxed);
        stages.tell(&self.shared.log, [input.len(), dues.iter().map(|(_, dues)| dues.len()).sum()]);
        let now = self.shared.now();
        let mut state = self.shared.state.lock();
        for ((key, dues), content) in dues.into_iter().zip(contents) {
            E::missed(metrics, dues.iter().filter(|due| **due < now).count() as u64);
            if let Some(channel) = state.channels.get(&key) {
                channel.room.add_permits(dues.len());
            }
            let arrived = self.streams[&key].arrived;
            deliver(&mut state, key, Block { content, arrived, is_last: false });
        }
        Ok(())
    }

    fn end(&mut self, keys: &[Key]) -> Result<()> {
        // A stream that was closed meanwhile has no slot.
        let ending = keys.iter().filter_map(|key| self.streams.get(key).map(|live| (*key, *live)));
        let ending: Vec<(Key, OpenStream)> = ending.collect();
        let ids: Vec<StreamId> = ending.iter().map(|(_, live)| live.id).collect();
        let contents = self.engine.finish_each(&ids, &mut Stages::new(&self.shared.metrics))?;
        for ((key, OpenStream { arrived, .. }), content) in ending.into_iter().zip(contents) {
            self.streams.remove(&key);
            deliver(&mut self.shared.state.lock(), key, Block { content, arrived, is_last: true });
            self.close(key);
        }
        Ok(())
    }
}

/// Fails all streams, also after a panic, so that no client waits for an engine that is gone.
impl<E: StepEngine> Drop for Worker<E> {
    fn drop(&mut self) {
        let open: Vec<Key> = {
            let mut state = self.shared.state.lock();
            state.is_stopping = true;
            state.channels.keys().copied().collect()
        };
        self.fail(&open, &Error::unsupported("the server is stopping"));
    }
}

/// Sends a block; a stream takes its next step only when the one after it has room.
fn deliver<E: StepEngine>(state: &mut State<E>, key: Key, block: Block<E::Content>) {
    let Some(channel) = state.channels.get(&key) else { return };
    if E::is_empty(&block.content) && !block.is_last {
        return;
    }
    // It fails only if the client has left, which closes the stream.
    let _ = channel.blocks.try_send(block);
    if channel.blocks.capacity() == 0 {
        state.schedule.block(key);
    }
}
