//! Vectors of x86.

use std::arch::x86_64::*;

use super::{Lanes, Number};
use crate::device::vector::for_x86;

for_x86! {
    impl Number for [__m256 {
        type Int = __m256i;
        #[inline(always)]
        unsafe fn shift_left<const BITS: u32>(a: __m256i) -> __m256i {
            // SAFETY: the caller promises AVX2.
            unsafe { _mm256_sllv_epi32(a, _mm256_set1_epi32(BITS as i32)) }
        }
        #[inline(always)]
        unsafe fn shift_right<const BITS: u32>(a: __m256i) -> __m256i {
            // SAFETY: the caller promises AVX2.
            unsafe { _mm256_srlv_epi32(a, _mm256_set1_epi32(BITS as i32)) }
        }
    }, __m512 {
        type Int = __m512i;
        #[inline(always)]
        unsafe fn shift_left<const BITS: u32>(a: __m512i) -> __m512i {
            // SAFETY: the caller promises AVX-512.
            unsafe { _mm512_slli_epi32::<BITS>(a) }
        }
        #[inline(always)]
        unsafe fn shift_right<const BITS: u32>(a: __m512i) -> __m512i {
            // SAFETY: the caller promises AVX-512.
            unsafe { _mm512_srli_epi32::<BITS>(a) }
        }
    }];
    div(self, other: Self) -> Self = [_mm256_div_ps, _mm512_div_ps](self, other);
    min(self, other: Self) -> Self = [_mm256_min_ps, _mm512_min_ps](self, other);
    max(self, other: Self) -> Self = [_mm256_max_ps, _mm512_max_ps](self, other);
    mul_sub(self, a: Self, b: Self) -> Self = [_mm256_fmsub_ps, _mm512_fmsub_ps](self, a, b);
    truncate(self) -> Self::Int = [_mm256_cvttps_epi32, _mm512_cvttps_epi32](self);
    round(self) -> Self::Int = [_mm256_cvtps_epi32, _mm512_cvtps_epi32](self);
    bits(self) -> Self::Int = [_mm256_castps_si256, _mm512_castps_si512](self);
    from_bits(bits: Self::Int) -> Self = [_mm256_castsi256_ps, _mm512_castsi512_ps](bits);
    splat_int(value: u32) -> Self::Int = [_mm256_set1_epi32, _mm512_set1_epi32](value as i32);
    add_int(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_add_epi32, _mm512_add_epi32](a, b);
    sub_int(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_sub_epi32, _mm512_sub_epi32](a, b);
    mul_int(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_mullo_epi32, _mm512_mullo_epi32](a, b);
    and(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_and_si256, _mm512_and_si512](a, b);
    xor(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_xor_si256, _mm512_xor_si512](a, b);
    abs_int(a: Self::Int) -> Self::Int = [_mm256_abs_epi32, _mm512_abs_epi32](a);
    to_float(int: Self::Int) -> Self = [_mm256_cvtepi32_ps, _mm512_cvtepi32_ps](int);
    look_up(table: &[f32; 16], index: Self::Int) -> Self = [look_up_8, look_up_16](table, index);
}

for_x86! {
    impl Lanes for [__m256 {}, __m512 {}];
    load_int(from: *const u32) -> Self::Int = [_mm256_loadu_si256, _mm512_loadu_si512](from.cast());
    store_int(int: Self::Int, to: *mut u32) = [_mm256_storeu_si256, _mm512_storeu_si512](to.cast(), int);
    add_wide(wide: [Self::Int; 2], other: [Self::Int; 2]) -> [Self::Int; 2] = [add_wide_8, add_wide_16](wide, other);
}

/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn look_up_8(table: &[f32; 16], index: __m256i) -> __m256 {
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
unsafe fn look_up_16(table: &[f32; 16], index: __m512i) -> __m512 {
    // SAFETY: the caller's promise; the table is one vector.
    unsafe { _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr())) }
}

/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn add_wide_8([high, low]: [__m256i; 2], [a, b]: [__m256i; 2]) -> [__m256i; 2] {
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
unsafe fn add_wide_16([high, low]: [__m512i; 2], [a, b]: [__m512i; 2]) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = _mm512_add_epi32(low, b);
        let carry = _mm512_cmplt_epu32_mask(sum, b);
        let high = _mm512_add_epi32(high, a);
        [_mm512_mask_add_epi32(high, carry, high, _mm512_set1_epi32(1)), sum]
    }
}
