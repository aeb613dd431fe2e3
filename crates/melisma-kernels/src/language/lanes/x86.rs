//! Vectors of eight and of sixteen floats.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::chains::{Chains, chains};
use super::{Stored, Tile, run};
use crate::device::vector::{Float, Vector};

macro_rules! widen {
    ($($name:ident($from:ident: $type:ty) -> $vector:ty = $value:expr;)+) => { $(
        /// # Safety
        /// The pointer holds a vector of elements, and the machine has the instruction set.
        #[inline(always)]
        unsafe fn $name($from: *const $type) -> $vector {
            // SAFETY: the caller promises a vector of elements and the instruction set.
            unsafe { $value }
        }
    )+ };
}
widen! {
    narrow_f16(from: f16) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
    narrow_bf16(from: bf16) -> __m256 =
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))));
    wide_f16(from: f16) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
    wide_bf16(from: bf16) -> __m512 =
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))));
}
chains!(__m256, 2, narrow_f16, narrow_bf16, narrow_fold);
chains!(__m512, 1, wide_f16, wide_bf16, wide_fold);

/// Defines the sums of vectors from a function that leaves four chains of each.
macro_rules! folds {
    ($($name:ident($chains:ty) by $quarter:ident;)+) => { $(
        /// # Safety
        /// The machine has the instruction set.
        #[inline(always)]
        unsafe fn $name<const N: usize>(all: [$chains; N]) -> [f32; N] {
            let mut sums = [0.0; N];
            for (sums, all) in sums.chunks_mut(4).zip(all.chunks(4)) {
                // SAFETY: the caller promises the instruction set.
                let four = unsafe {
                    let mut quarters = [_mm_setzero_ps(); 4];
                    for (quarter, chains) in quarters.iter_mut().zip(all) {
                        *quarter = $quarter(*chains);
                    }
                    last_quarters(quarters)
                };
                sums.copy_from_slice(&four[..sums.len()]);
            }
            sums
        }
    )+ };
}
folds! {
    narrow_fold([__m256; 2]) by narrow_quarter;
    wide_fold([__m512; 1]) by wide_quarter;
}

/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn narrow_quarter([low, high]: [__m256; 2]) -> __m128 {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        let half = _mm256_add_ps(low, high);
        _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half))
    }
}

/// # Safety
/// The machine has AVX-512.
#[inline(always)]
unsafe fn wide_quarter([all]: [__m512; 1]) -> __m128 {
    // SAFETY: the caller promises the instruction set.
    unsafe { narrow_quarter([_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all)]) }
}

/// Returns (c0 + c2) + (c1 + c3) of the chains of each.
///
/// # Safety
/// The machine has SSE.
#[inline(always)]
unsafe fn last_quarters([a, b, c, d]: [__m128; 4]) -> [f32; 4] {
    let mut sums = [0.0; 4];
    // SAFETY: the caller promises the instruction set; the array holds the vector.
    unsafe {
        let ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(sums.as_mut_ptr(), _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
    }
    sums
}

/// # Safety
/// As [`super::Run`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn avx2<T: Stored, const OUTPUTS: usize, const ROWS: usize>(tile: Tile<T>) {
    // SAFETY: the caller's promise.
    unsafe { run::<[__m256; 2], T, OUTPUTS, ROWS>(tile) }
}

/// # Safety
/// As [`super::Run`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn avx512<T: Stored, const OUTPUTS: usize, const ROWS: usize>(tile: Tile<T>) {
    // SAFETY: the caller's promise.
    unsafe { run::<[__m512; 1], T, OUTPUTS, ROWS>(tile) }
}
