//! One stream on the fastest path that its model has.

use std::sync::Arc;

use melisma_kernels::layer::step::Rounding;
use melisma_kernels::{Budget, Queue};

#[cfg(feature = "speak")]
use super::codes::Codes;
use super::codes::Frames;
use super::engine::{Engine, EngineOptions, StreamId, unless_reference};
use super::model::Model;
use super::noise::Noise;
use super::progress::Progress;
use super::reference::Stream;
use crate::Result;

/// One decoding stream on a device. The [`Engine`] has no kernels for models without depthwise convolutions; the reference
/// model decodes those, on the CPU only.
#[derive(Debug)]
pub struct Player {
    path: Path,
}

/// Everything besides the codes that the samples of a stream depend on.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// The noise of its decoder blocks.
    pub noise: Noise,
    /// How a GPU may round the factors of products.
    pub rounding: Rounding,
}

impl From<Noise> for DecodeOptions {
    fn from(noise: Noise) -> Self {
        Self { noise, rounding: Rounding::Off }
    }
}

impl DecodeOptions {
    setters! {
        /// Sets the noise of the decoder blocks.
        pub fn with_noise(noise: Noise);
        /// Sets how a GPU may round the factors of products.
        pub fn with_rounding(rounding: Rounding);
    }
}

#[derive(Debug)]
enum Path {
    Engine(Box<Engine>, StreamId),
    Reference(Box<Stream>),
}

impl Player {
    /// Creates a stream of `model` at its start.
    ///
    /// # Errors
    /// `Memory` when `budget` refuses; `Unsupported` for a GPU that has no kernels for the model.
    pub fn new(model: &Arc<Model>, queue: &Queue, budget: &Budget, options: impl Into<DecodeOptions>) -> Result<Self> {
        let DecodeOptions { noise, rounding } = options.into();
        let options = EngineOptions::new(1).with_rounding(rounding);
        match unless_reference(queue, || Engine::new(model, queue, budget, options))? {
            Some(engine) => Self::on(engine, noise),
            None => Ok(Self::reference(Stream::new(Arc::clone(model), noise))),
        }
    }

    pub(super) fn on(mut engine: Engine, noise: Noise) -> Result<Self> {
        let stream = engine.open(noise)?;
        Ok(Self { path: Path::Engine(Box::new(engine), stream) })
    }

    pub(super) fn reference(stream: Stream) -> Self {
        Self { path: Path::Reference(Box::new(stream)) }
    }

    /// Returns where the stream stands.
    ///
    /// # Errors
    /// None before the stream is finished.
    pub fn progress(&self) -> Result<Progress> {
        match &self.path {
            Path::Engine(engine, stream) => engine.progress(*stream),
            Path::Reference(stream) => Ok(stream.progress()),
        }
    }

    /// Takes frames, gives the samples that became final and were not handed out yet.
    ///
    /// # Errors
    /// `frames` are of a model of another shape, or the device fails.
    pub fn push<'a>(&mut self, frames: impl Into<Frames<'a>>) -> Result<Vec<f32>> {
        match &mut self.path {
            Path::Engine(engine, stream) => engine.push(*stream, frames),
            Path::Reference(stream) => stream.push(frames),
        }
    }

    /// Returns the newest samples as they would be if the stream ended here, without touching its state; only before
    /// anything was handed out, and nothing afterwards. They are not handed out again when they become final.
    ///
    /// # Errors
    /// The device fails.
    pub fn peek(&mut self) -> Result<Vec<f32>> {
        match &mut self.path {
            Path::Engine(engine, stream) => engine.peek(*stream),
            Path::Reference(stream) => Ok(stream.peek()),
        }
    }

    /// Decodes a clip on the side; the stream does not change.
    #[cfg(feature = "speak")]
    pub(crate) fn decode_beside(&mut self, codes: &Codes) -> Result<()> {
        match &mut self.path {
            Path::Engine(engine, _) => engine.decode(codes, &Noise::default()).map(drop),
            Path::Reference(_) => Ok(()),
        }
    }

    /// Ends the stream: gives all samples that were not handed out yet.
    ///
    /// # Errors
    /// The device fails.
    pub fn finish(self) -> Result<Vec<f32>> {
        match self.path {
            Path::Engine(mut engine, stream) => engine.finish(stream),
            Path::Reference(stream) => Ok(stream.finish()),
        }
    }
}
