//! The definition, in f64.

use super::{EPSILON, Norm};

pub(super) fn norm(layer: &Norm<'_>, x: &[f32]) -> Vec<f64> {
    let n = layer.n_channels;
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks(n) {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n as f64;
        for (c, &x) in row.iter().enumerate() {
            let scaled = (f64::from(x) - mean) / (variance + EPSILON).sqrt();
            y.push(scaled * f64::from(layer.weight[c]) + f64::from(layer.bias[c]));
        }
    }
    y
}
