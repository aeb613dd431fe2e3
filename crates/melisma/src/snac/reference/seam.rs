//! The seam meter: how far streamed samples are from those of decoding the whole clip.
//!
//! A [`Stream`](super::Stream) measures 0. [`windowed`] is how servers without state stream: they decode the last
//! four frames again for every new one and play the second of them. It lacks context on both sides, never plays the first
//! frame and the last two, and costs four times as much.

use crate::snac::codes::Codes;
use crate::snac::model::Model;
use crate::snac::noise::Noise;
use crate::{Error, Result};

/// Frames that a window decodes.
const WINDOW_FRAMES: usize = 4;

/// A comparison of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Seam {
    /// Samples compared.
    pub n_samples: usize,
    /// Of these, samples that differ in any bit.
    pub n_different: usize,
    /// The largest difference, of full scale.
    pub max_abs: f32,
    /// The energy of the difference relative to the expected samples, in dB; minus infinity when they are equal.
    pub relative_db: f64,
}

impl Seam {
    /// Compares samples with what they should be; the longer is cut to the shorter.
    pub fn measure(samples: &[f32], expected: &[f32]) -> Self {
        let pairs = || samples.iter().zip(expected);
        let energy = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x) * f64::from(x)).sum::<f64>();
        let difference = energy(&mut pairs().map(|(a, b)| a - b));
        let scale = energy(&mut pairs().map(|(_, b)| *b)).max(f64::MIN_POSITIVE);
        Self {
            n_samples: pairs().len(),
            n_different: pairs().filter(|(a, b)| a.to_bits() != b.to_bits()).count(),
            max_abs: pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max),
            relative_db: 10.0 * (difference / scale).log10(),
        }
    }
}

/// Decodes `codes` in windows: the sound of the frames 1 to n - 3 only. Every window has its own noise.
///
/// # Errors
/// `InvalidArgument` for [`Noise::Given`], and for codes of another model.
pub fn windowed(model: &Model, codes: &Codes, noise: &Noise) -> Result<Vec<f32>> {
    let frame_len = model.config().frame_len();
    let mut samples = Vec::new();
    for start in 0..(codes.n_frames() + 1).saturating_sub(WINDOW_FRAMES) {
        let mut window = Codes::empty(model.config());
        window.append(codes.frames().range(start..start + WINDOW_FRAMES))?;
        let noise = match noise {
            Noise::Seed(seed) => Noise::Seed(seed.wrapping_add(start as u64)),
            Noise::Off => Noise::Off,
            Noise::Given(_) => return Err(Error::invalid("windows draw their own noise; it cannot be given")),
        };
        samples.extend_from_slice(&super::decode(model, &window, &noise)[frame_len..2 * frame_len]);
    }
    Ok(samples)
}

/// Returns the part of a whole clip that [`windowed`] decoding plays.
pub fn windowed_part<'a>(model: &Model, whole: &'a [f32]) -> &'a [f32] {
    let frame_len = model.config().frame_len();
    let end = whole.len().saturating_sub((WINDOW_FRAMES - 2) * frame_len);
    whole.get(frame_len..end).unwrap_or(&[])
}
