//! Samples to codes: whole clips, and streams.

use std::path::Path;
use std::sync::Arc;

use super::codes::Codes;
use super::engine::{EncodeEngine, EngineOptions, unless_reference};
use super::model::Model;
use super::recorder::Recorder;
use super::reference;
use crate::{Context, Result};

/// Samples to codes on a device.
///
/// ```
/// use melisma::snac::{Decoder, Encoder};
///
/// let mut encoder = Encoder::open("builtin:mini24")?;
/// let tone: Vec<f32> = (0..24_000).map(|n| 0.3 * (n as f32 * 0.06).sin()).collect();
/// let codes = encoder.encode(&tone)?;
/// assert_eq!(codes.n_frames(), 12);
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    model: Arc<Model>,
    context: Context,
    /// `None` where only the reference encodes with the model.
    engine: Option<EncodeEngine>,
}

impl Encoder {
    /// Opens a model on the CPU: `builtin:mini24`, or what [`Model::open`] takes.
    ///
    /// # Errors
    /// Those of [`Model::open`] and [`Context::cpu`].
    pub fn open(source: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(&Context::cpu()?, source)
    }

    /// Opens a model in `context`.
    ///
    /// # Errors
    /// Those of [`Model::open_in`] and [`Encoder::new_in`].
    pub fn open_in(context: &Context, source: impl AsRef<Path>) -> Result<Self> {
        Self::new_in(context, Arc::new(Model::open_in(context, source)?))
    }

    /// Creates an encoder of `model`.
    ///
    /// # Errors
    /// `Memory` when the budget refuses; `Unsupported` for a GPU that has no kernels for the model.
    pub fn new_in(context: &Context, model: Arc<Model>) -> Result<Self> {
        let engine = unless_reference(context.queue(), || {
            EncodeEngine::new(&model, context.queue(), context.budget(), EngineOptions::new(1))
        })?;
        Ok(Self { model, context: context.clone(), engine })
    }

    /// Returns its model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Returns the number of samples per second of what it takes.
    pub fn sample_rate(&self) -> u32 {
        self.model.config().sampling_rate
    }

    /// Returns the codes of a whole clip. Its end is padded with silence to whole frames and whole attention windows.
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite; otherwise the device failed.
    pub fn encode(&mut self, samples: &[f32]) -> Result<Codes> {
        match &mut self.engine {
            Some(engine) => engine.encode(samples),
            None => reference::encode(&self.model, samples),
        }
    }

    /// Returns a stream; it shares the weights of this encoder.
    ///
    /// # Errors
    /// `Memory` when the budget refuses.
    pub fn stream(&self) -> Result<Recorder> {
        match &self.engine {
            Some(engine) => Recorder::on(engine.sibling(self.context.queue(), self.context.budget(), 1)?),
            None => Recorder::reference(Arc::clone(&self.model)),
        }
    }
}
