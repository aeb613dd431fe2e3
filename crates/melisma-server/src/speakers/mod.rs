//! The language models that this server runs itself: the speakers of `/v1/audio/speech` without an upstream.
//!
//! A [`Speakers`] is one voice model. It owns an [`Ensemble`](melisma::speak::Ensemble) on a thread of its own, which
//! the texts of all clients share: between two steps they join and leave, and the frames of each go to its client as
//! they become whole. A client that takes none pauses its text alone, and one that leaves ends it.
//!
//! What a text says does not depend on the texts beside it.

mod capacity;
mod codec;
mod model;
mod stream;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use melisma::lock::{Condvar, Mutex};
use melisma::runtime::thread;
use melisma::speak::{Script, Speaker};
use melisma::{Context, Result};
use tokio::sync::mpsc;

pub use capacity::{SpeakerCapacity, SpeakerSource};
pub use codec::{Decoding, OwnCodec};
pub use model::{Loading, VoiceModel, open_all};
pub use stream::{Speech, Utterance};

use crate::batcher::CapacityCache;
use crate::config::Speakers as Sizing;
use crate::log::{Level, Log};
use crate::metrics::SpeakerMetrics;
use crate::queue::{Slot, SlotQueue};
use crate::stopper::Stopper;
use worker::{Listener, Worker};

/// Messages of one text that wait for its client; each has a frame or more.
const WAITING: usize = 32;

/// One voice model that speaks the texts of all clients. Dropping it fails those that are open.
#[derive(Debug)]
pub struct Speakers {
    name: String,
    speaker: Arc<Speaker>,
    /// The most tokens of a piece and its speech.
    context: usize,
    capacity: SpeakerCapacity,
    codec: Option<OwnCodec>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How a voice model serves.
#[derive(Debug)]
pub struct Setup {
    /// What clients call it.
    pub name: String,
    /// How many speak at a time.
    pub sizing: Sizing,
    /// As that of [`Decoding`].
    pub n_streams: usize,
    /// Its codec, if it is not that of the server.
    pub codec: Option<OwnCodec>,
    /// The part of the free memory that its cache may take.
    pub memory_share: f64,
    /// As that of [`Decoding`].
    pub cache: Option<CapacityCache>,
    /// Where it tells of its capacity.
    pub log: Log,
    /// Ends the measurement when the server is asked to stop.
    pub stopper: Stopper,
}

/// What the thread and its clients share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    slots: SlotQueue,
    metrics: SpeakerMetrics,
    is_lost: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    joining: Vec<(Script, Listener)>,
    /// How often a client came, took a message or left.
    n_changes: u64,
    is_stopping: bool,
}

impl Speakers {
    /// Measures a voice model and starts its thread.
    ///
    /// # Errors
    /// Memory is too small for its cache, the device fails, or the server is asked to stop while it measures.
    pub fn start(speaker: Speaker, setup: Setup) -> Result<Self> {
        let speaker = Arc::new(speaker);
        let (ensemble, capacity) = capacity::open(&speaker, &setup)?;
        let Setup { name, codec, log, .. } = setup;
        log.line(Level::Info, &format!("voice model {name}: {capacity}"));
        if capacity.realtime < 1.0 {
            let speed = melisma::text::realtime(capacity.realtime, 1.0);
            let text = format!("warning: voice model {name} speaks at {speed} here, so its listeners have to wait");
            log.line(Level::Warn, &text);
        }
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            slots: SlotQueue::new(capacity.speakers),
            metrics: SpeakerMetrics::default(),
            is_lost: AtomicBool::new(false),
        });
        let context = ensemble.context();
        let worker = Worker::new(Arc::clone(&shared), ensemble);
        let thread = Some(thread::start("speakers", move || worker.run())?);
        Ok(Self { name, speaker, context, capacity, codec, shared, thread })
    }

    /// Returns what clients call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its folder, or `builtin:voice`.
    pub fn folder(&self) -> &Path {
        self.speaker.folder()
    }

    /// Returns its voices, the default one first.
    pub fn voices(&self) -> &[String] {
        &self.speaker.format().voices
    }

    /// Returns the prompts of a text; an empty name is the default voice, and any that of a model without names.
    ///
    /// # Errors
    /// As [`Speaker::script`].
    pub fn script(&self, text: &str, voice: &str, seed: u64) -> Result<Script> {
        let voice = Some(voice).filter(|voice| !voice.is_empty() && !self.voices().is_empty());
        self.speaker.script_within(text, voice, seed, self.context)
    }

    /// Begins a text in a slot of [`Speakers::slots`], or returns `None` if its thread is stopping.
    pub fn open_in(&self, slot: Slot, script: Script) -> Option<Speech> {
        let (sender, said) = mpsc::channel(WAITING);
        let mut state = self.shared.state.lock();
        if state.is_stopping {
            return None;
        }
        state.joining.push((script, Listener::new(slot, sender)));
        drop(state);
        let speech = Speech::new(Arc::clone(&self.shared), said);
        self.shared.tell();
        Some(speech)
    }

    /// Returns what limits the number of texts.
    pub fn slots(&self) -> &SlotQueue {
        &self.shared.slots
    }

    /// Returns how many speak at a time.
    pub fn capacity(&self) -> &SpeakerCapacity {
        &self.capacity
    }

    /// Returns its codec and engine, if they are not those of the server.
    pub fn codec(&self) -> Option<&OwnCodec> {
        self.codec.as_ref()
    }

    /// Returns what it has done.
    pub fn metrics(&self) -> &SpeakerMetrics {
        &self.shared.metrics
    }

    /// Returns whether the device failed and has done nothing since.
    pub fn is_lost(&self) -> bool {
        self.shared.is_lost.load(Relaxed) || self.codec.as_ref().is_some_and(|codec| codec.batcher.is_lost())
    }
}

impl Shared {
    /// Tells the thread that something is new.
    fn tell(&self) {
        self.state.lock().n_changes += 1;
        self.work.notify_one();
    }
}

impl Drop for Speakers {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.tell();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already failed its texts.
            let _ = thread.join();
        }
    }
}

/// Returns a context on the device of `context` with a queue of its own, which counts in the same memory.
fn beside(context: &Context) -> Result<Context> {
    Context::on(context.device().clone(), context.memory().clone())
}

#[cfg(test)]
mod tests;
