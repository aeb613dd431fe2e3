//! One engine that serves the streams of all clients.
//!
//! A [`Batcher`] owns an engine on a thread of its own: [`snac::Engine`](melisma::snac::Engine), which
//! decodes frames of codes to samples, or [`snac::EncodeEngine`](melisma::snac::EncodeEngine), which
//! encodes frames of samples. Clients open streams, push frames and receive what became final;
//! between two steps streams join and leave. Every queue is bounded: [`Input::push`] waits for room,
//! and a stream whose blocks are not received takes no further step. Dropping either half closes the
//! stream before the next step.
//!
//! What a stream receives does not depend on the streams beside it.

mod capacity;
mod engine;
mod idle;
mod schedule;
mod stream;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use melisma::lock::{Condvar, Mutex};
use melisma::runtime::device::Queue;
use melisma::runtime::memory::Budget;
use melisma::runtime::thread;
use melisma::snac::{Engine, EngineOptions, Model};
use melisma::{Error, Result};
use tokio::sync::{Semaphore, mpsc};

use crate::log::{Level, Log};
use crate::metrics::Metrics;
use crate::queue::{Slot, SlotQueue};
use crate::stopper::Stopper;
use capacity::Rounds;
pub use capacity::{Cache as CapacityCache, Capacity, CapacityReport, Measurement, Source, period};
pub(crate) use capacity::{Round, largest};
pub use engine::StepEngine;
use idle::Idle;
pub use schedule::{Account, Due, Key, Row, Schedule, Step};
pub use stream::{Block, Input, Output};

/// Frames of one stream that wait for their step.
const INPUT_FRAMES: usize = 64;
/// Blocks of one stream that wait for their client.
const OUTPUT_BLOCKS: usize = 8;

/// An engine that serves many streams. Dropping it fails the streams that are open.
#[derive(Debug)]
pub struct Batcher<E: StepEngine = Engine> {
    shared: Arc<Shared<E>>,
    thread: Option<JoinHandle<()>>,
    /// Where its capacity is cached.
    cache: Option<CapacityCache>,
}

/// Where a decoding batcher runs.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Its device.
    pub queue: &'a Queue,
    /// Counts its memory.
    pub budget: &'a Budget,
    /// Size and precision of its engine.
    pub options: EngineOptions,
    /// How many streams it admits.
    pub sizing: Sizing,
    /// Where it reports times.
    pub metrics: Arc<Metrics>,
    /// Where it tells of steps and of changes of its capacity.
    pub log: Log,
    /// Ends the measurement when the server is asked to stop.
    pub stopper: Stopper,
}

/// How many streams a batcher admits.
#[derive(Debug)]
pub enum Sizing {
    /// As many as the user says.
    Given(Capacity),
    /// All that the engine has slots for, in steps of the measured size.
    Pinned,
    /// As many as the device keeps up with. It is measured at the start, and again when it is idle.
    Measured {
        /// Where it is cached.
        cache: Option<CapacityCache>,
    },
}

/// State shared by the batcher's thread and its clients.
#[derive(Debug)]
struct Shared<E: StepEngine> {
    state: Mutex<State<E>>,
    work: Condvar,
    start: Instant,
    metrics: Arc<Metrics>,
    log: Log,
    slots: SlotQueue,
    capacity: Mutex<CapacityReport>,
    /// Whether the device failed and has done nothing since.
    is_lost: AtomicBool,
}

#[derive(Debug)]
struct State<E: StepEngine> {
    schedule: Schedule<Frame<E::Frame>>,
    channels: BTreeMap<Key, ClientChannel<E::Content>>,
    /// Streams that have no slot of the engine yet.
    opening: Vec<(Key, E::Start)>,
    /// Streams whose slot is to be freed.
    closing: Vec<Key>,
    n_opened: Key,
    is_stopping: bool,
}

/// One frame of a stream.
#[derive(Debug)]
struct Frame<F> {
    content: F,
    arrived: Instant,
}

/// The channel to one client.
#[derive(Debug)]
struct ClientChannel<C> {
    /// The first field, so that the slot is free before the client sees the end.
    _slot: Slot,
    blocks: mpsc::Sender<Block<C>>,
    /// One permit for each frame that may still wait.
    room: Arc<Semaphore>,
    failure: Failure,
}

/// Why a stream ended early, written before its channel closes.
type Failure = Arc<Mutex<Option<Error>>>;

impl Batcher {
    /// Builds a decoder, measures it and starts its thread. At most `max_streams` streams are
    /// admitted, fewer if the device cannot keep up with them.
    ///
    /// # Errors
    /// Those of [`Engine::new`]; the device fails; the server is asked to stop while it measures.
    pub fn start(model: &Model, setup: Setup<'_>) -> Result<Self> {
        let Setup { queue, budget, options, sizing, metrics, log, stopper } = setup;
        let mut engine = Engine::new(model, queue, budget, options)?;
        let period = period(model.config());
        let mut rounds = Rounds::new(&engine, model.config(), options.max_streams)?;
        let mut cached = None;
        let (report, idle) = match sizing {
            Sizing::Given(capacity) => (CapacityReport::pinned(capacity), None),
            Sizing::Pinned => {
                let measured = rounds.measure(&mut engine, &stopper)?;
                let capacity = Capacity { streams: options.max_streams, ..measured.capacity };
                (CapacityReport { measured: Some(measured), ..CapacityReport::pinned(capacity) }, None)
            }
            Sizing::Measured { cache } => {
                let measured = rounds.measure(&mut engine, &stopper)?;
                let (report, note) = cache.as_ref().map_or((measured.into(), None), |cache| cache.settle(measured));
                if let Some(note) = note {
                    log.line(Level::Info, &note);
                }
                cached = cache.clone();
                (report, Some(Idle::of(rounds, cache, log.clone())))
            }
        };
        let mut batcher = Self::begin(engine, period, (report, idle), (metrics, log))?;
        batcher.cache = cached;
        Ok(batcher)
    }
}

impl<E: StepEngine> Batcher<E> {
    /// Starts a thread for `engine`, whose frames have the given period.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn over(engine: E, period: Duration, capacity: Capacity, metrics: Arc<Metrics>) -> Result<Self> {
        Self::begin(engine, period, (CapacityReport::pinned(capacity), None), (metrics, Log::default()))
    }

    fn begin(
        engine: E,
        period: Duration,
        (report, idle): (CapacityReport, Option<Idle<E>>),
        (metrics, log): (Arc<Metrics>, Log),
    ) -> Result<Self> {
        let state = State {
            schedule: Schedule::new(period),
            channels: BTreeMap::new(),
            opening: Vec::new(),
            closing: Vec::new(),
            n_opened: 0,
            is_stopping: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            start: Instant::now(),
            metrics,
            log,
            slots: SlotQueue::new(report.capacity.streams),
            capacity: Mutex::new(report),
            is_lost: AtomicBool::new(false),
        });
        let worker = worker::Worker::new(Arc::clone(&shared), engine, idle);
        let thread = thread::start("batcher", move || worker.run())?;
        Ok(Self { shared, thread: Some(thread), cache: None })
    }

    /// Opens a stream, or returns `None` if the device is fully used. Never waits.
    pub fn open(&self, start: E::Start) -> Option<(Input<E>, Output<E>)> {
        self.open_in(self.shared.slots.try_acquire()?, start)
    }

    /// Opens a stream in a slot of [`Batcher::slots`], or returns `None` if the batcher is stopping.
    pub fn open_in(&self, slot: Slot, start: E::Start) -> Option<(Input<E>, Output<E>)> {
        let (blocks, received) = mpsc::channel(OUTPUT_BLOCKS);
        let (room, failure) = (Arc::new(Semaphore::new(INPUT_FRAMES)), Failure::default());
        let key = {
            let mut state = self.shared.state.lock();
            if state.is_stopping {
                return None;
            }
            let key = state.n_opened;
            state.n_opened += 1;
            state.opening.push((key, start));
            state.schedule.open(key);
            let channel = ClientChannel { blocks, room: Arc::clone(&room), failure: Arc::clone(&failure), _slot: slot };
            state.channels.insert(key, channel);
            key
        };
        self.shared.work.notify_one();
        let input = Input::new(Arc::clone(&self.shared), key, room, Arc::clone(&failure));
        Some((input, Output::new(Arc::clone(&self.shared), key, received, failure)))
    }

    /// Returns what limits the number of streams.
    pub fn slots(&self) -> &SlotQueue {
        &self.shared.slots
    }

    /// Returns the capacity of the device, and where it comes from.
    pub fn capacity(&self) -> CapacityReport {
        *self.shared.capacity.lock()
    }

    /// Returns where its capacity is cached, if it is.
    pub(crate) fn cache(&self) -> Option<&CapacityCache> {
        self.cache.as_ref()
    }

    /// Returns whether the device failed and has done nothing since.
    pub fn is_lost(&self) -> bool {
        self.shared.is_lost.load(Relaxed)
    }

    /// Returns the frames that wait for their step.
    pub fn queue_depth(&self) -> usize {
        self.shared.state.lock().schedule.waiting()
    }

    /// Returns the counts of all frames so far.
    pub fn account(&self) -> Account {
        self.shared.state.lock().schedule.account()
    }
}

impl<E: StepEngine> Drop for Batcher<E> {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already failed its streams.
            let _ = thread.join();
        }
    }
}

impl<E: StepEngine> Shared<E> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

impl<E: StepEngine> State<E> {
    /// Returns whether no stream is open or about to open, and the batcher goes on.
    fn has_no_work(&self) -> bool {
        self.channels.is_empty() && self.closing.is_empty() && !self.is_stopping
    }

    /// Ends a stream early; the engine's slot is freed before the next step.
    fn abandon(&mut self, key: Key) {
        if self.channels.contains_key(&key) {
            self.schedule.close(key);
            self.closing.push(key);
        }
    }
}

#[cfg(test)]
mod tests;
