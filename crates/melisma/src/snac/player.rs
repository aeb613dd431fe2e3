//! One stream on the fastest path that its model has.

use std::sync::Arc;

use melisma_kernels::layer::step::Rounding;
use melisma_kernels::{Budget, Device, Queue};

use super::codes::Frames;
use super::engine::{Engine, EngineOptions, StreamId};
use super::model::Model;
use super::noise::Noise;
use super::stream::{Progress, Stream};
use crate::{Kind, Result};

/// One decoding stream on a device. The [`Engine`] has no kernels for models without depthwise convolutions; the reference
/// model decodes those, on the CPU only.
#[derive(Debug)]
pub struct Player {
    path: Path,
}

/// Everything besides the codes that the samples of a stream depend on.
#[derive(Debug, Clone, Default)]
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

#[derive(Debug)]
enum Path {
    Engine(Box<Engine>, StreamId),
    Reference(Box<Stream>),
}

impl Player {
    /// A stream of `model` at its start.
    ///
    /// # Errors
    /// `Memory` when `budget` refuses; `Unsupported` for a GPU that has no kernels for the model.
    pub fn new(model: &Arc<Model>, queue: &Queue, budget: &Budget, options: impl Into<DecodeOptions>) -> Result<Self> {
        let DecodeOptions { noise, rounding } = options.into();
        let options = EngineOptions { max_streams: 1, rounding };
        let path = match Engine::new(model, queue, budget, options) {
            Ok(mut engine) => {
                let stream = engine.open(noise)?;
                Path::Engine(Box::new(engine), stream)
            }
            Err(error) if error.kind() == Kind::Unsupported && matches!(queue.device(), Device::Cpu(_)) => {
                Path::Reference(Box::new(Stream::new(Arc::clone(model), noise)))
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path })
    }

    /// Where the stream stands.
    ///
    /// # Errors
    /// None before the stream is finished.
    pub fn progress(&self) -> Result<Progress> {
        match &self.path {
            Path::Engine(engine, stream) => engine.progress(*stream),
            Path::Reference(stream) => Ok(stream.progress()),
        }
    }

    /// As [`Stream::push`].
    ///
    /// # Errors
    /// `frames` are of a model of another shape, or the device fails.
    pub fn push<'a>(&mut self, frames: impl Into<Frames<'a>>) -> Result<Vec<f32>> {
        match &mut self.path {
            Path::Engine(engine, stream) => engine.push(*stream, frames),
            Path::Reference(stream) => stream.push(frames),
        }
    }

    /// As [`Stream::peek`].
    ///
    /// # Errors
    /// The device fails.
    pub fn peek(&mut self) -> Result<Vec<f32>> {
        match &mut self.path {
            Path::Engine(engine, stream) => engine.peek(*stream),
            Path::Reference(stream) => Ok(stream.peek()),
        }
    }

    /// As [`Stream::finish`].
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
