//! Vectors of AVX2, AVX-512 and NEON.

#[cfg(target_arch = "aarch64")]
use super::neon::*;
#[cfg(target_arch = "x86_64")]
use super::x86::*;
use super::{Lanes, Number};
use crate::device::vector::for_vectors;

for_vectors! {
    impl Number for [{
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
    } {
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
    } {
        type Int = Pair<int32x4_t>;
        #[inline(always)]
        unsafe fn shift_left<const BITS: u32>(Pair(low, high): Self::Int) -> Self::Int {
            // SAFETY: registers need no promise.
            unsafe { Pair(shift_left_4::<BITS>(low), shift_left_4::<BITS>(high)) }
        }
        #[inline(always)]
        unsafe fn shift_right<const BITS: u32>(Pair(low, high): Self::Int) -> Self::Int {
            // SAFETY: registers need no promise.
            unsafe { Pair(shift_right_4::<BITS>(low), shift_right_4::<BITS>(high)) }
        }
    }];
    div(self, other: Self) -> Self = [_mm256_div_ps, _mm512_div_ps, vdivq_f32](self, other);
    min(self, other: Self) -> Self = [_mm256_min_ps, _mm512_min_ps, smaller](self, other);
    max(self, other: Self) -> Self = [_mm256_max_ps, _mm512_max_ps, larger](self, other);
    mul_sub(self, a: Self, b: Self) -> Self = [_mm256_fmsub_ps, _mm512_fmsub_ps, fused_minus](self, a, b);
    truncate(self) -> Self::Int = [_mm256_cvttps_epi32, _mm512_cvttps_epi32, vcvtq_s32_f32](self);
    round(self) -> Self::Int = [_mm256_cvtps_epi32, _mm512_cvtps_epi32, vcvtnq_s32_f32](self);
    bits(self) -> Self::Int = [_mm256_castps_si256, _mm512_castps_si512, vreinterpretq_s32_f32](self);
    from_bits(bits: Self::Int) -> Self = [_mm256_castsi256_ps, _mm512_castsi512_ps, vreinterpretq_f32_s32](bits);
    splat_int(value: u32) -> Self::Int = [_mm256_set1_epi32, _mm512_set1_epi32, vdupq_n_s32](value as i32);
    add_int(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_add_epi32, _mm512_add_epi32, vaddq_s32](a, b);
    sub_int(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_sub_epi32, _mm512_sub_epi32, vsubq_s32](a, b);
    mul_int(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_mullo_epi32, _mm512_mullo_epi32, vmulq_s32](a, b);
    and(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_and_si256, _mm512_and_si512, vandq_s32](a, b);
    xor(a: Self::Int, b: Self::Int) -> Self::Int = [_mm256_xor_si256, _mm512_xor_si512, veorq_s32](a, b);
    abs_int(a: Self::Int) -> Self::Int = [_mm256_abs_epi32, _mm512_abs_epi32, vabsq_s32](a);
    to_float(int: Self::Int) -> Self = [_mm256_cvtepi32_ps, _mm512_cvtepi32_ps, vcvtq_f32_s32](int);
    look_up(table: &[f32; 16], index: Self::Int) -> Self = [look_up_8, look_up_16, look_up_4](table, index);
}

for_vectors! {
    impl Lanes;
    load_int(from: *const u32) -> Self::Int = [_mm256_loadu_si256, _mm512_loadu_si512, vld1q_s32](from.cast());
    store_int(int: Self::Int, to: *mut u32) = [_mm256_storeu_si256, _mm512_storeu_si512, vst1q_s32](to.cast(), int);
    add_wide(wide: [Self::Int; 2], other: [Self::Int; 2]) -> [Self::Int; 2] = [add_wide_8, add_wide_16, add_wide_4](wide, other);
}
