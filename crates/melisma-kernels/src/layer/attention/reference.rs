//! The definition, in f64, of a whole stream.

use super::Attention;

/// Returns mixed `[N, C]` of qkv `[N, 3 C]`.
pub(super) fn attention(layer: &Attention, qkv: &[f32]) -> Vec<f64> {
    let Attention { n_channels, head_dim, window, .. } = *layer;
    let (half, len) = (head_dim / 2, qkv.len() / (3 * n_channels));
    let rotation = layer.rotation();
    let value = |t: usize, c: usize| f64::from(qkv[t * 3 * n_channels + c]);
    let turned = |t: usize, head: usize, d: usize| {
        let [cos, sin] = rotation[t % window * half + d % half].map(f64::from);
        let (a, b) = (value(t, head + d % half), value(t, head + d % half + half));
        if d < half { a * cos - b * sin } else { b * cos + a * sin }
    };
    let mut mixed = vec![0.0; len * n_channels];
    for t in 0..len {
        let keys = t / window * window..((t / window + 1) * window).min(len);
        for head in (0..n_channels).step_by(head_dim) {
            let score = |key: usize| {
                let product = |d: usize| turned(t, head, d) * turned(key, n_channels + head, d);
                (0..head_dim).map(product).sum::<f64>() / (head_dim as f64).sqrt()
            };
            let scores: Vec<f64> = keys.clone().map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for d in head..head + head_dim {
                let values = keys.clone().zip(&powers).map(|(key, power)| power / sum * value(key, 2 * n_channels + d));
                mixed[t * n_channels + d] = values.sum();
            }
        }
    }
    mixed
}
