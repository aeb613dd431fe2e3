//! One stream on the fastest path that its model has.

use std::sync::Arc;

use melisma_kernels::{Budget, Device, Queue};

use super::codes::Codes;
use super::engine::{Engine, StreamId};
use super::model::Model;
use super::noise::Noise;
use super::stream::{Progress, Stream};
use crate::{Kind, Result};

/// One decoding stream on a device. Models that the [`Engine`] has no kernels for (those without depthwise convolutions)
/// are decoded by the reference model, on the CPU only.
#[derive(Debug)]
pub struct Player(Path);

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
    pub fn new(model: &Arc<Model>, queue: &Queue, budget: &Budget, noise: Noise) -> Result<Self> {
        match Engine::new(model, queue, budget, 1) {
            Ok(mut engine) => {
                let stream = engine.open(noise)?;
                Ok(Self(Path::Engine(Box::new(engine), stream)))
            }
            Err(error) if error.kind() == Kind::Unsupported && matches!(queue.device(), Device::Cpu(_)) => {
                Ok(Self(Path::Reference(Box::new(Stream::new(Arc::clone(model), noise)))))
            }
            Err(error) => Err(error),
        }
    }

    /// Where it stands.
    ///
    /// # Errors
    /// None on a stream that goes on.
    pub fn progress(&self) -> Result<Progress> {
        match &self.0 {
            Path::Engine(engine, stream) => engine.progress(*stream),
            Path::Reference(stream) => Ok(stream.progress()),
        }
    }

    /// As [`Stream::push`].
    ///
    /// # Errors
    /// `codes` are of another model, or the device fails.
    pub fn push(&mut self, codes: &Codes) -> Result<Vec<f32>> {
        match &mut self.0 {
            Path::Engine(engine, stream) => engine.push(*stream, codes),
            Path::Reference(stream) => Ok(stream.push(codes)),
        }
    }

    /// As [`Stream::peek`].
    ///
    /// # Errors
    /// The device fails.
    pub fn peek(&mut self) -> Result<Vec<f32>> {
        match &mut self.0 {
            Path::Engine(engine, stream) => engine.peek(*stream),
            Path::Reference(stream) => Ok(stream.peek()),
        }
    }

    /// As [`Stream::finish`].
    ///
    /// # Errors
    /// The device fails.
    pub fn finish(self) -> Result<Vec<f32>> {
        match self.0 {
            Path::Engine(mut engine, stream) => engine.finish(stream),
            Path::Reference(stream) => Ok(stream.finish()),
        }
    }
}
