//! The definition, in f64, of a whole stream.

use super::{Entry, TAPS};

/// Computes y `[N, C]` of x `[N]`.
pub(super) fn entry(layer: &Entry<'_>, x: &[f32]) -> Vec<f64> {
    let mut y = Vec::new();
    for t in 0..x.len() {
        for c in 0..layer.n_channels {
            let product = |k: usize| {
                let x = (t + k).checked_sub(TAPS / 2).and_then(|from| x.get(from));
                x.map_or(0.0, |x| f64::from(layer.weight[c * TAPS + k]) * f64::from(*x))
            };
            y.push(f64::from(layer.bias[c]) + (0..TAPS).map(product).sum::<f64>());
        }
    }
    y
}
