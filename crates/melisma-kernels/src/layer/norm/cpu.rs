//! A step has few rows of about a thousand channels, so plain loops suffice.

use super::{EPSILON, Norm};

#[derive(Debug)]
pub(super) struct Prepared {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Prepared {
    pub(super) fn new(layer: &Norm<'_>) -> Self {
        Self { weight: layer.weight.to_vec(), bias: layer.bias.to_vec() }
    }

    pub(super) fn run(&self, x: &[f32], y: &mut [f32]) {
        let n = self.weight.len();
        for (x, y) in x.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
            let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
            let variance = x.iter().map(|&x| (f64::from(x) - mean) * (f64::from(x) - mean)).sum::<f64>() / n as f64;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for c in 0..n {
                y[c] = (((f64::from(x[c]) - mean) * scale) as f32).mul_add(self.weight[c], self.bias[c]);
            }
        }
    }
}
