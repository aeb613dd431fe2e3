//! One stream of a model, wherever the model runs.

use std::sync::Arc;

use melisma_kernels::{Budget, Device, Queue};

use super::codes::Codes;
use super::engine::{Engine, StreamId};
use super::model::Model;
use super::noise::Noise;
use super::stream::{Progress, Stream};
use crate::{Kind, Result};

/// Decodes while the codes are still being made, on a device: by the engine, or, where the model has a shape that was
/// never published and the device is the CPU, by the reference model.
#[derive(Debug)]
pub struct Playback(On);

#[derive(Debug)]
enum On {
    Engine { engine: Box<Engine>, stream: StreamId },
    Reference(Box<Stream>),
}

impl Playback {
    /// A stream at its start.
    ///
    /// # Errors
    /// Those of [`Engine::new`], but for models that the reference decodes.
    pub fn new(model: &Arc<Model>, noise: Noise, queue: &Queue, budget: &Budget) -> Result<Self> {
        match Engine::new(model, queue, budget, 1) {
            Ok(engine) => Self::on(engine, noise),
            Err(error) if error.kind() == Kind::Unsupported && matches!(queue.device(), Device::Cpu(_)) => {
                Ok(Self(On::Reference(Box::new(Stream::new(Arc::clone(model), noise)))))
            }
            Err(error) => Err(error),
        }
    }

    /// The only stream of `engine`.
    ///
    /// # Errors
    /// Those of [`Engine::open`].
    pub fn on(mut engine: Engine, noise: Noise) -> Result<Self> {
        let stream = engine.open(noise)?;
        Ok(Self(On::Engine { engine: Box::new(engine), stream }))
    }

    /// Where it stands.
    pub fn progress(&self) -> Progress {
        match &self.0 {
            On::Engine { engine, stream } => engine.progress(*stream).unwrap_or_default(),
            On::Reference(stream) => stream.progress(),
        }
    }

    /// Takes frames, gives the samples that became final and were not handed out yet.
    ///
    /// # Errors
    /// `codes` are of another model, or the device fails.
    pub fn push(&mut self, codes: &Codes) -> Result<Vec<f32>> {
        match &mut self.0 {
            On::Engine { engine, stream } => engine.push(*stream, codes),
            On::Reference(stream) => Ok(stream.push(codes)),
        }
    }

    /// As [`Stream::peek`].
    ///
    /// # Errors
    /// The device fails.
    pub fn peek(&mut self) -> Result<Vec<f32>> {
        match &mut self.0 {
            On::Engine { engine, stream } => engine.peek(*stream),
            On::Reference(stream) => Ok(stream.peek()),
        }
    }

    /// Ends the stream: gives all samples that were not handed out yet.
    ///
    /// # Errors
    /// The device fails.
    pub fn finish(self) -> Result<Vec<f32>> {
        match self.0 {
            On::Engine { mut engine, stream } => engine.finish(stream),
            On::Reference(stream) => Ok(stream.finish()),
        }
    }
}
