//! The definition: in f64, and in the order that every instruction set keeps.

pub(super) fn product(w: &[f32], k: usize, x: &[f32]) -> Vec<f64> {
    let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
    x.chunks(k).flat_map(|x| w.chunks(k).map(move |w| dot(w, x))).collect()
}

pub(super) fn in_order(w: &[f32], x: &[f32]) -> f32 {
    let mut chains = [0f32; 16];
    for k in 0..w.len().next_multiple_of(16) {
        let [w, x] = [w, x].map(|values| values.get(k).copied().unwrap_or(0.0));
        chains[k % 16] = w.mul_add(x, chains[k % 16]);
    }
    for half in [8, 4, 2, 1] {
        for chain in 0..half {
            chains[chain] += chains[chain + half];
        }
    }
    chains[0]
}
