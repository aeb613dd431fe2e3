//! The definition, in f64.

pub(super) fn norm(weight: &[f32], epsilon: f32, x: &[f32]) -> Vec<f64> {
    let n = weight.len();
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks(n) {
        let mean = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n as f64;
        for (&x, &weight) in row.iter().zip(weight) {
            y.push(f64::from(x) / (mean + f64::from(epsilon)).sqrt() * f64::from(weight));
        }
    }
    y
}
