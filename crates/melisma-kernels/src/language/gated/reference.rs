//! The definition, in f64.

pub(super) fn gated(n_inner: usize, x: &[f32]) -> Vec<f64> {
    let mut y = Vec::new();
    for row in x.chunks(2 * n_inner) {
        for i in 0..n_inner {
            let (gate, up) = (f64::from(row[i]), f64::from(row[n_inner + i]));
            y.push(gate / (1.0 + (-gate).exp()) * up);
        }
    }
    y
}
