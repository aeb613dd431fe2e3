//! The encoder that all requests share.

use std::sync::{Mutex, PoisonError};

use melisma::Result;
use melisma::runtime::device::Queue;
use melisma::runtime::memory::Budget;
use melisma::snac::{Codes, EncodeEngine, Model, StreamId};

use crate::admission::{Admission, Place};

/// Clips that are encoded at a time.
const MAX_CLIPS: usize = 4;
/// Frames encoded in a row before another clip has its turn.
const TURN_FRAMES: usize = 8;

/// An engine whose clips take turns.
#[derive(Debug)]
pub struct Encoder {
    engine: Mutex<EncodeEngine>,
    admission: Admission,
}

/// A clip that is being encoded. Dropping it frees its slot.
#[derive(Debug)]
pub struct Clip<'a> {
    encoder: &'a Encoder,
    stream: Option<StreamId>,
    turn_len: usize,
}

impl Encoder {
    /// An encoder on the device of `queue`.
    ///
    /// # Errors
    /// Those of [`EncodeEngine::new`].
    pub fn new(model: &Model, queue: &Queue, budget: &Budget) -> Result<Self> {
        let engine = EncodeEngine::new(model, queue, budget, MAX_CLIPS)?;
        Ok(Self { engine: Mutex::new(engine), admission: Admission::new(MAX_CLIPS) })
    }

    /// A place for a clip, if there is one.
    pub(crate) fn enter(&self) -> Option<Place> {
        self.admission.enter()
    }

    /// Begins a clip, for which a place is held.
    pub(crate) fn open(&self) -> Result<Clip<'_>> {
        let (stream, turn_len) = self.with(|engine| Ok((engine.open()?, TURN_FRAMES * engine.frame_len())))?;
        Ok(Clip { encoder: self, stream: Some(stream), turn_len })
    }

    fn with<T>(&self, work: impl FnOnce(&mut EncodeEngine) -> Result<T>) -> Result<T> {
        work(&mut self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clip<'_> {
    /// Encodes samples; `give` gets the codes that no later sample can change.
    pub(crate) fn push(&self, samples: &[f32], mut give: impl FnMut(Codes) -> Result<()>) -> Result<()> {
        let Some(stream) = self.stream else { return Ok(()) };
        for turn in samples.chunks(self.turn_len) {
            give(self.encoder.with(|engine| engine.push(stream, turn))?)?;
        }
        Ok(())
    }

    /// The codes of the rest.
    pub(crate) fn finish(mut self) -> Result<Option<Codes>> {
        self.stream.take().map(|stream| self.encoder.with(|engine| engine.finish(stream))).transpose()
    }
}

impl Drop for Clip<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            // It fails only for a stream that has ended.
            let _ = self.encoder.with(|engine| engine.close(stream));
        }
    }
}
