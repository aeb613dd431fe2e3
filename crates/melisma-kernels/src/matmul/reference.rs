//! The definition, in f64.

use super::Matmul;

/// Computes C [M, N] of A [M, K] and B [K, N].
pub(super) fn matmul(shape: Matmul, a: &[f32], b: &[f32]) -> Vec<f64> {
    let Matmul { m, k, n, .. } = shape;
    let mut c = vec![0f64; m * n];
    for row in 0..m {
        for column in 0..n {
            c[row * n + column] =
                (0..k).map(|step| f64::from(a[row * k + step]) * f64::from(b[step * n + column])).sum();
        }
    }
    c
}

/// Returns the chain of fused multiply-adds that the CPU promises, bit for bit.
pub(super) fn chain(shape: Matmul, a: &[f32], b: &[f32]) -> Vec<f32> {
    let Matmul { m, k, n, .. } = shape;
    let mut c = vec![0f32; m * n];
    for row in 0..m {
        for column in 0..n {
            c[row * n + column] = (0..k).fold(0f32, |sum, step| a[row * k + step].mul_add(b[step * n + column], sum));
        }
    }
    c
}
