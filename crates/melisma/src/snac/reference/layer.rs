//! The layers as streams: input in pieces of any length, output as soon as it is final.
//!
//! Every layer has a state, and one `push` that serves streams and whole clips alike; a clip is a single piece that is
//! also the last. Each output value is one sum in a fixed order (bias, then input channels, then taps), whatever the
//! piece it is computed in, and rows are swept along time, so that vector code and its tails do the same additions.
//! Hence the result does not depend, in any bit, on how the input was cut.

use super::plane::Plane;
use crate::Result;
use crate::snac::weights::Weights;

/// Whether more input will follow a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// More will come: output that depends on it waits.
    More,
    /// This is the end: beyond it the input is zero.
    Last,
}

/// Computes `y += Σ weights[i] · inputs[i]`, added in index order.
pub(in crate::snac) fn accumulate(y: &mut [f32], weights: &[f32], inputs: &[&[f32]]) {
    let n = y.len();
    let (fours, rest) = weights.as_chunks::<4>();
    let (input_fours, input_rest) = inputs.as_chunks::<4>();
    for (&[a, b, c, d], [p, q, r, s]) in fours.iter().zip(input_fours) {
        let (p, q, r, s) = (&p[..n], &q[..n], &r[..n], &s[..n]);
        for t in 0..n {
            y[t] = y[t] + a * p[t] + b * q[t] + c * r[t] + d * s[t];
        }
    }
    for (&weight, input) in rest.iter().zip(input_rest) {
        for (y, x) in y.iter_mut().zip(*input) {
            *y += weight * x;
        }
    }
}

/// Snake: y = x + sin²(αx)/α, α per channel. Ziyin et al. 2020.
#[derive(Debug)]
pub struct Snake {
    pub(in crate::snac) alpha: Vec<f32>,
    pub(in crate::snac) inverse: Vec<f32>,
}

impl Snake {
    pub(in crate::snac) fn load(weights: &mut Weights<'_>, name: &str, n_channels: usize) -> Result<Self> {
        let alpha = weights.tensor(&format!("{name}.alpha"), &[1, n_channels, 1])?;
        let inverse = alpha.iter().map(|alpha| 1.0 / (alpha + 1e-9)).collect();
        Ok(Self { alpha, inverse })
    }

    /// Applies it in place on `[C, T]`.
    pub fn apply(&self, x: &mut Plane) {
        for (channel, (alpha, inverse)) in self.alpha.iter().zip(&self.inverse).enumerate() {
            for x in x.row_mut(channel) {
                let sin = (alpha * *x).sin();
                *x += inverse * (sin * sin);
            }
        }
    }
}
