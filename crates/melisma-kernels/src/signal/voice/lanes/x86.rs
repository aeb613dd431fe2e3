//! Vectors of x86.

use std::arch::x86_64::*;

use super::{Lanes, Number};

/// What is one intrinsic of the same shape on both widths.
macro_rules! plain {
    ($($name:ident($($argument:tt $(: $type:ty)?),*) -> $result:ty = $body:expr;)+) => { $(
        #[inline(always)]
        unsafe fn $name($($argument $(: $type)?),*) -> $result {
            // SAFETY: the trait's promise.
            unsafe { $body }
        }
    )+ };
}

impl Number for __m256 {
    type Int = __m256i;
    plain! {
        splat(value: f32) -> Self = _mm256_set1_ps(value);
        add(self, other: Self) -> Self = _mm256_add_ps(self, other);
        sub(self, other: Self) -> Self = _mm256_sub_ps(self, other);
        mul(self, other: Self) -> Self = _mm256_mul_ps(self, other);
        div(self, other: Self) -> Self = _mm256_div_ps(self, other);
        min(self, other: Self) -> Self = _mm256_min_ps(self, other);
        max(self, other: Self) -> Self = _mm256_max_ps(self, other);
        mul_add(self, a: Self, b: Self) -> Self = _mm256_fmadd_ps(self, a, b);
        mul_sub(self, a: Self, b: Self) -> Self = _mm256_fmsub_ps(self, a, b);
        neg_mul_add(self, a: Self, b: Self) -> Self = _mm256_fnmadd_ps(self, a, b);
        truncate(self) -> __m256i = _mm256_cvttps_epi32(self);
        round(self) -> __m256i = _mm256_cvtps_epi32(self);
        bits(self) -> __m256i = _mm256_castps_si256(self);
        from_bits(bits: __m256i) -> Self = _mm256_castsi256_ps(bits);
        splat_int(value: u32) -> __m256i = _mm256_set1_epi32(value as i32);
        add_int(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub_int(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        mul_int(a: __m256i, b: __m256i) -> __m256i = _mm256_mullo_epi32(a, b);
        and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        abs_int(a: __m256i) -> __m256i = _mm256_abs_epi32(a);
        to_float(int: __m256i) -> Self = _mm256_cvtepi32_ps(int);
    }
    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sllv_epi32(a, _mm256_set1_epi32(BITS as i32)) }
    }
    #[inline(always)]
    unsafe fn shift_right<const BITS: u32>(a: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_srlv_epi32(a, _mm256_set1_epi32(BITS as i32)) }
    }
    #[inline(always)]
    unsafe fn look_up(table: &[f32; 16], index: __m256i) -> Self {
        // SAFETY: as above.
        unsafe {
            let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), index);
            let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), index);
            // Bit 3 of the index, moved to the sign.
            _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index)))
        }
    }
}

impl Lanes for __m256 {
    const N: usize = 8;
    plain! {
        load(from: *const f32) -> Self = _mm256_loadu_ps(from);
        load_int(from: *const u32) -> __m256i = _mm256_loadu_si256(from.cast());
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's promise, here and below.
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_int(int: __m256i, to: *mut u32) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(to.cast(), int) }
    }
    #[inline(always)]
    unsafe fn add_wide([high, low]: [__m256i; 2], [a, b]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            let sum = _mm256_add_epi32(low, b);
            // No carry gives all ones, which is -1, where the larger of both is the sum itself.
            let no_carry = _mm256_cmpeq_epi32(_mm256_max_epu32(sum, b), sum);
            let high = _mm256_add_epi32(_mm256_add_epi32(high, a), _mm256_set1_epi32(1));
            [_mm256_add_epi32(high, no_carry), sum]
        }
    }
}

impl Number for __m512 {
    type Int = __m512i;
    plain! {
        splat(value: f32) -> Self = _mm512_set1_ps(value);
        add(self, other: Self) -> Self = _mm512_add_ps(self, other);
        sub(self, other: Self) -> Self = _mm512_sub_ps(self, other);
        mul(self, other: Self) -> Self = _mm512_mul_ps(self, other);
        div(self, other: Self) -> Self = _mm512_div_ps(self, other);
        min(self, other: Self) -> Self = _mm512_min_ps(self, other);
        max(self, other: Self) -> Self = _mm512_max_ps(self, other);
        mul_add(self, a: Self, b: Self) -> Self = _mm512_fmadd_ps(self, a, b);
        mul_sub(self, a: Self, b: Self) -> Self = _mm512_fmsub_ps(self, a, b);
        neg_mul_add(self, a: Self, b: Self) -> Self = _mm512_fnmadd_ps(self, a, b);
        truncate(self) -> __m512i = _mm512_cvttps_epi32(self);
        round(self) -> __m512i = _mm512_cvtps_epi32(self);
        bits(self) -> __m512i = _mm512_castps_si512(self);
        from_bits(bits: __m512i) -> Self = _mm512_castsi512_ps(bits);
        splat_int(value: u32) -> __m512i = _mm512_set1_epi32(value as i32);
        add_int(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub_int(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        mul_int(a: __m512i, b: __m512i) -> __m512i = _mm512_mullo_epi32(a, b);
        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        abs_int(a: __m512i) -> __m512i = _mm512_abs_epi32(a);
        to_float(int: __m512i) -> Self = _mm512_cvtepi32_ps(int);
    }
    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_slli_epi32::<BITS>(a) }
    }
    #[inline(always)]
    unsafe fn shift_right<const BITS: u32>(a: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_srli_epi32::<BITS>(a) }
    }
    #[inline(always)]
    unsafe fn look_up(table: &[f32; 16], index: __m512i) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr())) }
    }
}

impl Lanes for __m512 {
    const N: usize = 16;
    plain! {
        load(from: *const f32) -> Self = _mm512_loadu_ps(from);
        load_int(from: *const u32) -> __m512i = _mm512_loadu_si512(from.cast());
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's promise, here and below.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_int(int: __m512i, to: *mut u32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(to.cast(), int) }
    }
    #[inline(always)]
    unsafe fn add_wide([high, low]: [__m512i; 2], [a, b]: [__m512i; 2]) -> [__m512i; 2] {
        // SAFETY: as above.
        unsafe {
            let sum = _mm512_add_epi32(low, b);
            let carry = _mm512_cmplt_epu32_mask(sum, b);
            let high = _mm512_add_epi32(high, a);
            [_mm512_mask_add_epi32(high, carry, high, _mm512_set1_epi32(1)), sum]
        }
    }
}
