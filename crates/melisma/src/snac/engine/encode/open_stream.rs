//! The streams of an encoding engine: where each stands.

use super::Layers;
use crate::snac::codes::Codes;
use crate::snac::config::Config;
use crate::snac::encoder::{Encoder, State};
use crate::snac::layer::Flow;
use crate::snac::plane::Plane;
use crate::{Error, Result};

/// The state that an engine has of a stream.
#[derive(Debug, Clone)]
pub(super) struct OpenStream {
    pub(super) serial: u64,
    state: State,
    latents: Plane,
    n_samples: usize,
}

impl OpenStream {
    pub(super) fn new(serial: u64, encoder: &Encoder, config: &Config) -> Self {
        Self { serial, state: encoder.start(), latents: Plane::zeros(config.latent_dim(), 0), n_samples: 0 }
    }

    /// Refuses samples that are not finite.
    pub(super) fn check(&self, samples: &[f32]) -> Result<()> {
        match samples.iter().position(|sample| !sample.is_finite()) {
            Some(at) => Err(Error::invalid(format!("sample {} is {}", self.n_samples + at, samples[at]))),
            None => Ok(()),
        }
    }

    pub(super) fn push(&mut self, layers: &Layers, config: &Config, samples: &[f32]) -> Result<Codes> {
        let mut codes = Codes::empty(config);
        self.n_samples += samples.len();
        for piece in samples.chunks(config.frame_len()) {
            codes.append(self.advance(layers, config, piece, Flow::More)?.frames())?;
        }
        Ok(codes)
    }

    pub(super) fn finish(mut self, layers: &Layers, config: &Config) -> Result<Codes> {
        if self.n_samples == 0 {
            return Ok(Codes::empty(config));
        }
        let padded = self.n_samples.next_multiple_of(config.padded_len());
        self.advance(layers, config, &vec![0.0; padded - self.n_samples], Flow::Last)
    }

    fn advance(&mut self, layers: &Layers, config: &Config, samples: &[f32], flow: Flow) -> Result<Codes> {
        let latents = layers.encoder.push(&mut self.state, &Plane::new(1, samples.to_vec()), flow);
        let seen = self.latents.then(&latents);
        let whole = seen.len() - seen.len() % config.frame_latents();
        let levels = layers.quantizer.encode(&seen.slice(0, whole));
        self.latents = seen.slice(whole, seen.len());
        Codes::new(config, levels.iter().map(|level| level.iter().map(|choice| choice.code).collect()).collect())
    }
}
