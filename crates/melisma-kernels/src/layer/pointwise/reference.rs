//! The definition, in f64, without a timeline.

use super::{Mode, Pointwise};

/// Computes y `[N, C_out]` of x `[N, C_in]`.
pub(super) fn pointwise(layer: &Pointwise<'_>, with: &[f32], x: &[f32]) -> Vec<f64> {
    let (n_in, n_out) = (layer.n_in, layer.n_out);
    let mut y = Vec::new();
    for t in 0..x.len() / n_in {
        for o in 0..n_out {
            let product: f64 =
                (0..n_in).map(|i| f64::from(layer.weight[o * n_in + i]) * f64::from(x[t * n_in + i])).sum();
            y.push(match layer.mode {
                Mode::Plain => product + layer.bias.map_or(0.0, |bias| f64::from(bias[o])),
                Mode::Add => product + f64::from(with[t * n_out + o]),
                Mode::Noise => product * f64::from(with[t]) + f64::from(x[t * n_in + o]),
            });
        }
    }
    y
}
