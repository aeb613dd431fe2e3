//! Weighted rows: y\[d\] = Σ_j w\[j\] · v\[j, d\] by fused multiply-adds, j ascending from a sum of 0.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

use super::chains::{CHAINS, Chains};
use super::prefetch;
use crate::device::isa::{Isa, Level};

/// Groups of columns whose sums stay in registers.
const GROUPS: usize = 4;
const GROUP_COLUMNS: usize = GROUPS * CHAINS;

/// Writes the sums of rows as long as `y`, one for each of `weights`. `next` is what is read after `values`.
pub(in crate::language) fn mix(isa: Isa, weights: &[f32], [values, next]: [&[f32]; 2], y: &mut [f32]) {
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(weights, [values, next], y) },
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(weights, [values, next], y) },
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "aarch64")]
        Level::Neon => unsafe { run::<[crate::device::vector::Neon; 2]>(weights, [values, next], y) },
        // SAFETY: floats need no instruction set.
        _ => unsafe { run::<[f32; CHAINS]>(weights, [values, next], y) },
    }
}

/// # Safety
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(weights: &[f32], values: [&[f32]; 2], y: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { run::<[__m256; 2]>(weights, values, y) }
}

/// # Safety
/// The machine has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn avx512(weights: &[f32], values: [&[f32]; 2], y: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { run::<[__m512; 1]>(weights, values, y) }
}

/// # Safety
/// The machine has the instruction set of `C`.
#[inline(always)]
unsafe fn run<C: Chains>(weights: &[f32], [values, next]: [&[f32]; 2], y: &mut [f32]) {
    let n = y.len();
    let mut done = 0;
    while done + CHAINS <= n {
        let rows = values.chunks_exact(n.max(1)).enumerate();
        let rows = rows.map(|(row, values)| (&values[done..], next.as_ptr().wrapping_add(row * n + done)));
        // SAFETY: the caller's promise.
        done += unsafe {
            match n - done {
                GROUP_COLUMNS.. => columns::<C, GROUPS>(weights, rows, &mut y[done..]),
                _ => columns::<C, 1>(weights, rows, &mut y[done..]),
            }
        };
    }
    for (column, y) in y.iter_mut().enumerate().skip(done) {
        *y =
            weights.iter().zip(values.chunks_exact(n)).fold(0.0, |sum, (weight, row)| weight.mul_add(row[column], sum));
    }
}

/// Computes the first columns of `y`; returns how many.
///
/// # Safety
/// The machine has the instruction set of `C`.
#[inline(always)]
unsafe fn columns<'a, C: Chains, const N: usize>(
    weights: &[f32],
    rows: impl Iterator<Item = (&'a [f32], *const f32)>,
    y: &mut [f32],
) -> usize {
    let y = &mut y[..N * CHAINS];
    // SAFETY: the caller promises the instruction set, and every slice has N · CHAINS floats.
    unsafe {
        let mut sums = [C::zero(); N];
        for (&weight, (row, next)) in weights.iter().zip(rows) {
            let (weight, row) = (C::splat(weight), &row[..N * CHAINS]);
            for (group, sum) in sums.iter_mut().enumerate() {
                prefetch(next.wrapping_add(group * CHAINS));
                *sum = weight.mul_add(C::load_f32(row.as_ptr().add(group * CHAINS)), *sum);
            }
        }
        for (group, sum) in sums.into_iter().enumerate() {
            sum.store(y.as_mut_ptr().add(group * CHAINS));
        }
    }
    y.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn every_width_and_instruction_set_gives_the_same_sums() {
        let mut random = SplitMix64::new(1);
        for n in [1, 2, 15, 16, 17, 64, 72, 80, 128, 200] {
            let (weights, values) = (random.floats(9), random.floats(9 * n));
            let mut expected = vec![0.0; n];
            for (weight, row) in weights.iter().zip(values.chunks(n)) {
                expected.iter_mut().zip(row).for_each(|(sum, value)| *sum = weight.mul_add(*value, *sum));
            }
            for isa in Isa::available() {
                let mut y = vec![f32::NAN; n];
                mix(isa, &weights, [&values, &[]], &mut y);
                assert_eq!(y, expected, "{n} columns, {isa:?}");
            }
        }
        mix(Isa::SCALAR, &[1.0], [&[]; 2], &mut []);
    }
}
