//! The definition, in f64, of a whole stream.

use super::{Residual, TAPS};

fn snake(x: f64, alpha: f32) -> f64 {
    let alpha = f64::from(alpha);
    x + (alpha * x).sin().powi(2) / (alpha + 1e-9)
}

/// Computes y `[N, C]` of x `[N, C]`.
pub(super) fn residual(layer: &Residual<'_>, x: &[f32]) -> Vec<f64> {
    let n = layer.n_channels;
    let len = x.len() / n;
    let mut y = Vec::with_capacity(x.len());
    for t in 0..len {
        let wide = |c: usize| {
            let mut sum = f64::from(layer.wide_bias[c]);
            for k in 0..TAPS {
                let from = (t + k * layer.dilation).checked_sub(3 * layer.dilation).filter(|&from| from < len);
                let value = from.map_or(0.0, |from| snake(f64::from(x[from * n + c]), layer.alpha[c]));
                sum += f64::from(layer.wide[c * TAPS + k]) * value;
            }
            snake(sum, layer.mix_alpha[c])
        };
        let h: Vec<f64> = (0..n).map(wide).collect();
        for o in 0..n {
            let product: f64 = (0..n).map(|i| f64::from(layer.mix[o * n + i]) * h[i]).sum();
            y.push(f64::from(x[t * n + o]) + f64::from(layer.mix_bias[o]) + product);
        }
    }
    y
}
