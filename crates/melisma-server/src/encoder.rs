//! The encoder that all requests share.

use std::sync::Arc;

use melisma::Result;
use melisma::runtime::device::{Device, Queue};
use melisma::runtime::memory::Budget;
use melisma::snac::{EncodeEngine, EngineOptions, Model};

use crate::batcher::{Batcher, Capacity, period};
use crate::metrics::Metrics;

/// An engine whose clips share steps.
pub type Encoder = Batcher<EncodeEngine>;

/// Returns how many clips are encoded at a time.
pub fn max_clips(device: &Device) -> usize {
    match device {
        Device::Cpu(_) => 8,
        Device::Cuda(_) => 64,
    }
}

/// Starts an encoder on the device of `queue`.
///
/// # Errors
/// Those of [`EncodeEngine::new`].
pub fn start(model: &Model, queue: &Queue, budget: &Budget, metrics: &Arc<Metrics>) -> Result<Encoder> {
    let max_clips = max_clips(&queue.device());
    let engine = EncodeEngine::new(model, queue, budget, EngineOptions::new(max_clips))?;
    let capacity = Capacity { streams: max_clips, step_frames: engine.max_frames() };
    Batcher::over(engine, period(model.config()), capacity, Arc::clone(metrics))
}
