//! The definition, in f64: one query over keys and values `[n, D]`.

pub(super) fn attend(query: &[f32], keys: &[&[f32]], values: &[&[f32]]) -> Vec<f64> {
    let scale = 1.0 / (query.len() as f64).sqrt();
    let dot = |key: &[f32]| query.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let scores: Vec<f64> = keys.iter().map(|key| (dot(key) * scale).exp()).collect();
    let sum: f64 = scores.iter().sum();
    let mut y = vec![0.0; query.len()];
    for (score, value) in scores.iter().zip(values) {
        for (y, &value) in y.iter_mut().zip(*value) {
            *y += score / sum * f64::from(value);
        }
    }
    y
}
