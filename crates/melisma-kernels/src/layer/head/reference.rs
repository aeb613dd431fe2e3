//! The definition, in f64, of a whole stream.

use super::{Head, TAPS};

/// Computes y `[N]` of x `[N, C]`.
pub(super) fn head(layer: &Head<'_>, x: &[f32]) -> Vec<f64> {
    let n = layer.n_channels;
    let len = x.len() / n;
    let sample = |t: usize| {
        let mut sum = f64::from(layer.bias);
        for k in 0..TAPS {
            if let Some(from) = (t + k).checked_sub(TAPS / 2).filter(|&from| from < len) {
                for c in 0..n {
                    let (x, alpha) = (f64::from(x[from * n + c]), f64::from(layer.alpha[c]));
                    let snake = x + (alpha * x).sin().powi(2) / (alpha + 1e-9);
                    sum += f64::from(layer.weight[c * TAPS + k]) * snake;
                }
            }
        }
        sum.tanh()
    };
    (0..len).map(sample).collect()
}
