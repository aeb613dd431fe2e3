//! One encoding stream on the fastest path that its model has.

use std::sync::Arc;

use melisma_kernels::{Budget, Queue};

use super::codes::Codes;
use super::engine::{EncodeEngine, EngineOptions, StreamId, unless_reference};
use super::model::Model;
use super::reference::{EncoderState, Flow, Plane};
use crate::{Error, Result};

/// One encoding stream on a device, as [`Player`](super::Player) is one decoding stream. The reference
/// model encodes what the [`EncodeEngine`] has no kernels for, on the CPU only.
#[derive(Debug)]
pub struct Recorder {
    path: Path,
    frame_len: usize,
}

#[derive(Debug)]
enum Path {
    Engine(Box<EncodeEngine>, StreamId),
    Reference(Box<Reference>),
}

impl Recorder {
    /// Creates a stream of `model` at its start.
    ///
    /// # Errors
    /// `Memory` when `budget` refuses; `Unsupported` for a GPU that has no kernels for the model.
    pub fn new(model: &Arc<Model>, queue: &Queue, budget: &Budget) -> Result<Self> {
        match unless_reference(queue, || EncodeEngine::new(model, queue, budget, EngineOptions::new(1)))? {
            Some(engine) => Self::on(engine),
            None => Self::reference(Arc::clone(model)),
        }
    }

    pub(super) fn on(mut engine: EncodeEngine) -> Result<Self> {
        let (frame_len, stream) = (engine.frame_len(), engine.open()?);
        Ok(Self { path: Path::Engine(Box::new(engine), stream), frame_len })
    }

    pub(super) fn reference(model: Arc<Model>) -> Result<Self> {
        let frame_len = model.config().frame_len();
        Ok(Self { path: Path::Reference(Box::new(Reference::new(model)?)), frame_len })
    }

    /// Returns the number of samples of a frame.
    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// Takes any number of samples, gives the codes that no later sample can change.
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite; otherwise the device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Codes> {
        match &mut self.path {
            Path::Engine(engine, stream) => engine.push(*stream, samples),
            Path::Reference(stream) => stream.push(samples),
        }
    }

    /// Pads the end with silence to whole frames and whole attention windows, gives the codes that are
    /// still to come.
    ///
    /// # Errors
    /// The device fails.
    pub fn finish(self) -> Result<Codes> {
        match self.path {
            Path::Engine(mut engine, stream) => engine.finish(stream),
            Path::Reference(stream) => stream.finish(),
        }
    }
}

/// The reference model, a padded piece at a time.
#[derive(Debug)]
struct Reference {
    model: Arc<Model>,
    state: EncoderState,
    /// Samples that do not fill a piece, or that may be the last piece.
    samples: Vec<f32>,
    /// Latents that do not fill a frame.
    latents: Plane,
    n_samples: u64,
}

impl Reference {
    fn new(model: Arc<Model>) -> Result<Self> {
        let (state, latents) = (model.encoder()?.start(), Plane::zeros(model.config().latent_dim(), 0));
        Ok(Self { model, state, samples: Vec::new(), latents, n_samples: 0 })
    }

    fn push(&mut self, samples: &[f32]) -> Result<Codes> {
        if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
            return Err(Error::invalid(format!("sample {} is {}", self.n_samples + at as u64, samples[at])));
        }
        self.n_samples += samples.len() as u64;
        self.samples.extend_from_slice(samples);
        let mut codes = Codes::empty(self.model.config());
        let unit = self.model.config().padded_len();
        while self.samples.len() > unit {
            let piece = self.samples.drain(..unit).collect();
            codes.append(self.advance(piece, Flow::More)?.frames())?;
        }
        Ok(codes)
    }

    fn finish(mut self) -> Result<Codes> {
        if self.samples.is_empty() {
            return Ok(Codes::empty(self.model.config()));
        }
        let mut piece = std::mem::take(&mut self.samples);
        piece.resize(self.model.config().padded_len(), 0.0);
        self.advance(piece, Flow::Last)
    }

    fn advance(&mut self, piece: Vec<f32>, flow: Flow) -> Result<Codes> {
        let config = self.model.config();
        let latents = self.model.encoder()?.push(&mut self.state, &Plane::new(1, piece), flow);
        let seen = self.latents.then(&latents);
        let whole = seen.len() - seen.len() % config.frame_latents();
        let levels = self.model.quantizer.encode(&seen.slice(0, whole));
        self.latents = seen.slice(whole, seen.len());
        Codes::new(config, levels.iter().map(|level| level.iter().map(|choice| choice.code).collect()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::snac::{Config, reference};

    #[test]
    fn models_without_kernels_are_encoded_by_the_reference() {
        let small = Config { encoder_dim: 4, decoder_dim: 16, codebook_size: 32, ..Config::snac_24khz() };
        let model = Arc::new(Model::random(Config { depthwise: false, ..small }, 3).unwrap());
        let budget = Budget::unlimited();
        let queue = Device::cpu().unwrap().queue(&budget).unwrap();
        let unit = model.config().padded_len();
        for n in [0, 1, unit, unit + 1, 3 * unit] {
            let samples: Vec<f32> = (0..n).map(|i| (i as f32 * 0.03).sin() * 0.4).collect();
            for piece in [100, unit, 5000] {
                let mut recorder = Recorder::new(&model, &queue, &budget).unwrap();
                assert!(matches!(recorder.path, Path::Reference(_)));
                let mut codes = Codes::empty(model.config());
                for piece in samples.chunks(piece) {
                    codes.append(recorder.push(piece).unwrap().frames()).unwrap();
                }
                codes.append(recorder.finish().unwrap().frames()).unwrap();
                assert_eq!(codes, reference::encode(&model, &samples).unwrap(), "{n} samples in pieces of {piece}");
            }
        }
        let mut recorder = Recorder::new(&model, &queue, &budget).unwrap();
        recorder.push(&[0.0; 5]).unwrap();
        assert_eq!(recorder.push(&[0.0, f32::NAN]).unwrap_err().to_string(), "sample 6 is NaN");
    }
}
