//! Operations of x86 that are several instructions.

pub(super) use std::arch::x86_64::*;

/// # Safety
/// The machine has AVX2.
#[inline(always)]
pub(super) unsafe fn look_up_8(table: &[f32; 16], index: __m256i) -> __m256 {
    // SAFETY: the caller's promise; the table has two vectors.
    unsafe {
        let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), index);
        let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), index);
        // Bit 3 of the index, moved to the sign.
        _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index)))
    }
}

/// # Safety
/// The machine has AVX-512.
#[inline(always)]
pub(super) unsafe fn look_up_16(table: &[f32; 16], index: __m512i) -> __m512 {
    // SAFETY: the caller's promise; the table is one vector.
    unsafe { _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr())) }
}

/// # Safety
/// The machine has AVX2.
#[inline(always)]
pub(super) unsafe fn add_wide_8([high, low]: [__m256i; 2], [a, b]: [__m256i; 2]) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = _mm256_add_epi32(low, b);
        // Without a carry the maximum is the sum itself, and the comparison gives all ones, which
        // is -1.
        let no_carry = _mm256_cmpeq_epi32(_mm256_max_epu32(sum, b), sum);
        let high = _mm256_add_epi32(_mm256_add_epi32(high, a), _mm256_set1_epi32(1));
        [_mm256_add_epi32(high, no_carry), sum]
    }
}

/// # Safety
/// The machine has AVX-512.
#[inline(always)]
pub(super) unsafe fn add_wide_16([high, low]: [__m512i; 2], [a, b]: [__m512i; 2]) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = _mm512_add_epi32(low, b);
        let carry = _mm512_cmplt_epu32_mask(sum, b);
        let high = _mm512_add_epi32(high, a);
        [_mm512_mask_add_epi32(high, carry, high, _mm512_set1_epi32(1)), sum]
    }
}
