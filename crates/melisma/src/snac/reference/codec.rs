//! Whole clips through the reference model.

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layer::Flow;
use super::plane::Plane;
use super::quantizer::Quantizer;
use crate::snac::codes::Codes;
use crate::snac::model::Model;
use crate::snac::noise::Noise;
use crate::{Error, Result};

/// Frames decoded at a time: enough to amortise, few enough that a long clip does not fill the memory.
pub(super) const PIECE_FRAMES: usize = 4;

/// Returns the quantiser of `model`.
pub fn quantizer(model: &Model) -> &Quantizer {
    &model.quantizer
}

/// Returns the decoder of `model`.
pub fn decoder(model: &Model) -> &Decoder {
    &model.decoder
}

/// Returns the encoder of `model`.
///
/// # Panics
/// The model has none, see [`Model::has_encoder`].
pub fn encoder(model: &Model) -> &Encoder {
    model.encoder().expect("the caller has a model with an encoder")
}

/// Turns codes into samples, `frame_len` for each frame. Codes must be of a model of this shape.
pub fn decode(model: &Model, codes: &Codes, noise: &Noise) -> Vec<f32> {
    let mut state = model.decoder.start();
    let mut samples = Vec::new();
    let mut pieces = codes.frames().chunks(PIECE_FRAMES).peekable();
    while let Some(piece) = pieces.next() {
        let latents = model.quantizer.decode(&piece.levels());
        let flow = if pieces.peek().is_none() { Flow::Last } else { Flow::More };
        samples.extend(model.decoder.push(&mut state, &latents, noise, flow));
    }
    samples
}

/// Turns samples into latents `[C, T]`: the end is padded with silence to whole frames and whole attention windows.
///
/// # Panics
/// The model has no encoder, see [`Model::has_encoder`].
pub fn latents(model: &Model, samples: &[f32]) -> Plane {
    let mut pieces = Vec::new();
    each_latents((model, encoder(model)), samples, |piece| pieces.push(piece));
    Plane::join(model.config().latent_dim(), &pieces)
}

/// Turns samples into codes; the end is padded as for [`latents`].
///
/// # Errors
/// `InvalidArgument` when a sample is not finite, or the model has no encoder.
pub fn encode(model: &Model, samples: &[f32]) -> Result<Codes> {
    let encoder = model.encoder()?;
    if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
        return Err(Error::invalid(format!("sample {at} is {}", samples[at])));
    }
    let config = model.config();
    let mut levels = vec![Vec::new(); config.vq_strides.len()];
    let mut pending = Plane::zeros(config.latent_dim(), 0);
    each_latents((model, encoder), samples, |piece| {
        let seen = pending.then(&piece);
        let whole = seen.len() - seen.len() % config.frame_latents();
        for (level, choices) in levels.iter_mut().zip(model.quantizer.encode(&seen.slice(0, whole))) {
            level.extend(choices.iter().map(|choice| choice.code));
        }
        pending = seen.slice(whole, seen.len());
    });
    Codes::new(config, levels)
}

fn each_latents((model, encoder): (&Model, &Encoder), samples: &[f32], mut found: impl FnMut(Plane)) {
    let unit = model.config().padded_len();
    let padded = samples.len().next_multiple_of(unit);
    let mut state = encoder.start();
    for start in (0..padded).step_by(unit) {
        let end = start + unit;
        let mut piece = samples[start..end.min(samples.len())].to_vec();
        piece.resize(unit, 0.0);
        let flow = if end == padded { Flow::Last } else { Flow::More };
        found(encoder.push(&mut state, &Plane::new(1, piece), flow));
    }
}
