//! A model: where it comes from, and decoding and encoding of whole clips.

use std::fs::File;

use melisma_kernels::{Budget, Device};

use super::codes::Codes;
use super::config::Config;
use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layer::Flow;
use super::noise::Noise;
use super::plane::Plane;
use super::quantizer::Quantizer;
use super::source::{Source, read_config};
use super::weights::Weights;
use crate::format::checkpoint::Checkpoint;
use crate::pack::{self, Archive, ReadAt};
use crate::{Error, Kind, Remedy, Result};

/// The weights of the small model that is part of this library, a safetensors file.
pub fn mini24_weights() -> &'static [u8] {
    melisma_models::mini24::weights()
}

/// Frames decoded at a time: enough to amortise, few enough that a long clip does not fill the memory.
pub(super) const PIECE_FRAMES: usize = 4;

/// The reference model: plain loops that define what every faster implementation must compute.
#[derive(Debug)]
pub struct Model {
    config: Config,
    hash: String,
    quantizer: Quantizer,
    encoder: Encoder,
    decoder: Decoder,
}

impl Model {
    /// Opens `builtin:mini24`, a directory with `config.json` and weights, or a file of weights with `config.json`
    /// beside it. Files are read tensor by tensor. Packed weights are decoded by `device`, within `budget`; the model is
    /// the same on every device.
    ///
    /// # Errors
    /// `Io` when a file cannot be read; otherwise those of [`Model::from_bytes`], or the device fails. The message names
    /// the file.
    pub fn open(source: &str, device: &Device, budget: &Budget) -> Result<Self> {
        let (config, weights) = match Source::find(source)? {
            Source::Mini24 => return Self::mini24(),
            Source::Files { config, weights } => (config, weights),
        };
        let file = File::open(&weights).map_err(|error| Error::io(weights.display(), error))?;
        let text = read_config(&config)?;
        Self::from_file(&text, &file, device, budget).map_err(|error| error.at(weights.display()))
    }

    /// The small model that is part of this library.
    ///
    /// # Errors
    /// None in practice: a test loads it.
    pub fn mini24() -> Result<Self> {
        let read = || {
            let config = Config::from_json(melisma_models::mini24::CONFIG)?;
            Self::build(config, Weights::new(Checkpoint::read(&mini24_weights())?))
        };
        read().map_err(|error: Error| error.at("builtin:mini24"))
    }

    /// A model from the text of `config.json` and the bytes of a weights file. Packed weights are decoded within
    /// `budget`.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated` or `Unsupported`, and `Memory` where `budget` refuses; the message names the key or tensor.
    pub fn from_bytes(config: &[u8], weights: &[u8], budget: &Budget) -> Result<Self> {
        Self::from_file(config, &weights, &Device::cpu()?, budget)
    }

    fn from_file(config: &[u8], weights: &dyn ReadAt, device: &Device, budget: &Budget) -> Result<Self> {
        let config = Config::from_json(config)?;
        if !pack::is_packed(weights).unwrap_or(false) {
            return Self::build(config, Weights::new(Checkpoint::read(weights)?));
        }
        let archive = Archive::open(weights, budget)?;
        if archive.is_delta() {
            return Err(Error::unsupported("a delta is not a whole model").with_hint(Remedy::Unpack));
        }
        archive.check_hash()?;
        match device {
            Device::Cpu(cpu) => Self::build(config, Weights::packed(archive, cpu.threads)),
            Device::Cuda(_) => {
                let loaded = pack::load_to_device(weights, device, budget)?;
                Self::build(config, Weights::loaded(loaded, device.queue(budget)?))
            }
        }
    }

    /// A synthetic model: the given shape with random weights.
    ///
    /// # Errors
    /// No model can have this configuration. None for one that was read or is one of the published.
    pub fn random(config: Config, seed: u64) -> Result<Self> {
        config.check()?;
        Self::build(config, Weights::random(seed))
    }

    fn build(config: Config, mut weights: Weights<'_>) -> Result<Self> {
        let encoder = Encoder::load(&mut weights, &config)?;
        let quantizer = Quantizer::load(&mut weights, &config)?;
        let decoder = Decoder::load(&mut weights, &config)?;
        Ok(Self { hash: weights.hash(), config, quantizer, encoder, decoder })
    }

    /// Its shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Identifies the model that made a set of codes: 32 hexadecimal digits of a hash over all weights.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Its quantiser.
    pub fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// Its decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Its encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Codes to samples, `frame_len` for each frame. Codes must be of a model of this shape.
    pub fn decode(&self, codes: &Codes, noise: &Noise) -> Vec<f32> {
        let mut state = self.decoder.start();
        let mut samples = Vec::new();
        let mut pieces = codes.frames().chunks(PIECE_FRAMES).peekable();
        while let Some(piece) = pieces.next() {
            let latents = self.quantizer.decode(&piece.levels());
            let flow = if pieces.peek().is_none() { Flow::Last } else { Flow::More };
            samples.extend(self.decoder.push(&mut state, &latents, noise, flow));
        }
        samples
    }

    /// Samples to latents `[C, T]`: the end is padded with silence to whole frames and whole attention windows.
    pub fn latents(&self, samples: &[f32]) -> Plane {
        let mut pieces = Vec::new();
        self.each_latents(samples, |piece| pieces.push(piece));
        Plane::join(self.config.latent_dim(), &pieces)
    }

    /// Samples to codes; the end is padded as for [`Model::latents`].
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite.
    pub fn encode(&self, samples: &[f32]) -> Result<Codes> {
        if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
            return Err(Error::new(Kind::InvalidArgument, format!("sample {at} is {}", samples[at])));
        }
        let mut levels = vec![Vec::new(); self.config.vq_strides.len()];
        let mut pending = Plane::zeros(self.config.latent_dim(), 0);
        self.each_latents(samples, |piece| {
            let seen = pending.then(&piece);
            let whole = seen.len() - seen.len() % self.config.frame_latents();
            for (level, choices) in levels.iter_mut().zip(self.quantizer.encode(&seen.slice(0, whole))) {
                level.extend(choices.iter().map(|choice| choice.code));
            }
            pending = seen.slice(whole, seen.len());
        });
        Codes::new(&self.config, levels)
    }

    fn each_latents(&self, samples: &[f32], mut found: impl FnMut(Plane)) {
        let unit = self.config.padded_len();
        let padded = samples.len().next_multiple_of(unit);
        let mut state = self.encoder.start();
        for start in (0..padded).step_by(unit) {
            let end = start + unit;
            let mut piece = samples[start..end.min(samples.len())].to_vec();
            piece.resize(unit, 0.0);
            let flow = if end == padded { Flow::Last } else { Flow::More };
            found(self.encoder.push(&mut state, &Plane::new(1, piece), flow));
        }
    }
}
