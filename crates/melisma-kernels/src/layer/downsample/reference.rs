//! The definition, in f64, of a whole stream.

use crate::layer::strided::Strided;

/// Computes y `[N, C_out]` of x `[N · s, C_in]`.
pub(super) fn downsample(layer: &Strided<'_>, x: &[f32]) -> Vec<f64> {
    let Strided { n_in, n_out, stride, .. } = *layer;
    let len = x.len() / n_in;
    let snake = |(index, &x): (usize, &f32)| {
        let (x, alpha) = (f64::from(x), f64::from(layer.alpha[index % n_in]));
        x + (alpha * x).sin().powi(2) / (alpha + 1e-9)
    };
    let z: Vec<f64> = x.iter().enumerate().map(snake).collect();
    let mut y = Vec::with_capacity(len / stride * n_out);
    for j in 0..len / stride {
        for o in 0..n_out {
            let mut sum = f64::from(layer.bias[o]);
            for k in 0..2 * stride {
                let Some(t) = (j * stride + k).checked_sub(stride.div_ceil(2)).filter(|&t| t < len) else { continue };
                for i in 0..n_in {
                    sum += f64::from(layer.weight[(o * n_in + i) * 2 * stride + k]) * z[t * n_in + i];
                }
            }
            y.push(sum);
        }
    }
    y
}
