//! The definition.

pub(super) fn embed(weight: &[f32], n_channels: usize, tokens: &[u32]) -> Vec<f32> {
    let mut y = Vec::new();
    for &token in tokens {
        for c in 0..n_channels {
            y.push(weight[token as usize * n_channels + c]);
        }
    }
    y
}
