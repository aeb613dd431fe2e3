//! The definition, in f64, of whole frames.

use super::{Level, Quantize};

/// Quantises x `[N, C]`, whole frames. `choose(index, cosines)` gets the cosines of every code of
/// the codebook for the code at `index` of `[N / L, S]`, and says which code to subtract.
pub(super) fn quantize(layer: &Quantize<'_>, x: &[f32], mut choose: impl FnMut(usize, &[f64]) -> usize) {
    let n = layer.n_channels;
    let frame_codes: usize = layer.levels.iter().map(|level| level.places.len()).sum();
    for (frame, x) in x.chunks(layer.frame_latents * n).enumerate() {
        let mut residual: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        for level in layer.levels {
            for (group, place) in residual.chunks_mut(level.stride * n).zip(level.places) {
                let code = choose(frame * frame_codes + place, &cosines(layer, level, group));
                for t in 0..level.stride {
                    for c in 0..n {
                        let product = |d: usize| {
                            f64::from(level.out_weight[c * layer.dim + d])
                                * f64::from(level.codebook[code * layer.dim + d])
                        };
                        let out = f64::from(level.out_bias[c]) + (0..layer.dim).map(product).sum::<f64>();
                        group[t * n + c] -= out;
                    }
                }
            }
        }
    }
}

fn cosines(layer: &Quantize<'_>, level: &Level<'_>, group: &[f64]) -> Vec<f64> {
    let n = layer.n_channels;
    let mean = |c: usize| (0..level.stride).map(|t| group[t * n + c]).sum::<f64>() / level.stride as f64;
    let value = |d: usize| {
        let sum: f64 = (0..n).map(|c| f64::from(level.in_weight[d * n + c]) * mean(c)).sum();
        sum + f64::from(level.in_bias[d])
    };
    let direction = normalised((0..layer.dim).map(value).collect());
    let cosine = |row: &[f32]| {
        let row = normalised(row.iter().map(|x| f64::from(*x)).collect());
        row.iter().zip(&direction).map(|(a, b)| a * b).sum()
    };
    level.codebook.chunks(layer.dim).map(cosine).collect()
}

fn normalised(vector: Vec<f64>) -> Vec<f64> {
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
    vector.iter().map(|x| x / norm).collect()
}
