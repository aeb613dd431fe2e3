//! The definition, in f64, of a whole stream.

use super::Depthwise;

/// Computes y `[N, C]` of x `[N, C]`.
pub(super) fn depthwise(layer: &Depthwise<'_>, x: &[f32]) -> Vec<f64> {
    let (n_channels, n_taps) = (layer.n_channels, layer.n_taps);
    let len = x.len() / n_channels;
    let mut y = Vec::with_capacity(x.len());
    for t in 0..len {
        for c in 0..n_channels {
            let mut sum = f64::from(layer.bias[c]);
            for k in 0..n_taps {
                if let Some(from) = (t + k).checked_sub(n_taps / 2).filter(|&from| from < len) {
                    sum += f64::from(layer.weight[c * n_taps + k]) * f64::from(x[from * n_channels + c]);
                }
            }
            y.push(sum);
        }
    }
    y
}
