//! The definition, in f64, of a whole stream.

use super::Embed;

/// Computes y `[N, C]` of codes `[N / L, S]`.
pub(super) fn embed(layer: &Embed<'_>, codes: &[i32]) -> Vec<f64> {
    let mut y = Vec::new();
    for frame in codes.chunks(layer.frame_codes()) {
        for t in 0..layer.frame_latents {
            for c in 0..layer.n_channels {
                let level_sum = |level: &super::Level<'_>| {
                    let last = level.codebook.len() / layer.dim - 1;
                    let code = frame[level.places[t / level.stride]].clamp(0, last as i32) as usize;
                    let product = |d: usize| {
                        f64::from(level.weight[c * layer.dim + d]) * f64::from(level.codebook[code * layer.dim + d])
                    };
                    f64::from(level.bias[c]) + (0..layer.dim).map(product).sum::<f64>()
                };
                y.push(layer.levels.iter().map(level_sum).sum());
            }
        }
    }
    y
}
