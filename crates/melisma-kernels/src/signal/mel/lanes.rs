//! Vectors whose lanes are frames: every lane does the same work on its own frame, so results do
//! not depend on which frames are processed together. Every instruction set uses the same
//! operations and gives the same bits.

use crate::device::vector::{Float, Vector, inlined};

/// A vector of frames.
///
/// # Safety
/// All methods: as [`Vector`].
pub trait Lanes: Vector {
    /// Rounds to half precision, ties to even.
    unsafe fn store_f16(self, to: *mut half::f16);
    unsafe fn sqrt(self) -> Self;
    /// Returns the larger of the two; a NaN in `self` stays.
    unsafe fn max(self, other: Self) -> Self;
    /// Splits positive normal numbers, x = m * 2^e with m between sqrt(1/2) and sqrt(2): (e, m).
    unsafe fn split(self) -> (Self, Self);
    /// Returns `self` where it is infinite or NaN, else `finite`.
    unsafe fn or_finite(self, finite: Self) -> Self;
}

/// Returns the natural logarithm of positive normal numbers, within 1.5 units in the last place;
/// infinity and NaN stay. The polynomial is from the Cephes library.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn ln<V: Lanes>(x: V) -> V {
    const COEFFICIENTS: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    // SAFETY: the caller promises the instruction set of `V`.
    unsafe {
        let (exponent, mantissa) = x.split();
        let m = mantissa.sub(V::splat(1.0));
        let square = m.mul(m);
        let mut sum = V::splat(COEFFICIENTS[0]);
        for coefficient in &COEFFICIENTS[1..] {
            sum = sum.mul_add(m, V::splat(*coefficient));
        }
        // ln 2 in two parts: the first times any exponent is exact.
        let small = exponent.mul_add(V::splat(-2.121_944_4e-4), sum.mul(m).mul(square));
        let small = square.neg_mul_add(V::splat(0.5), small);
        let finite = exponent.mul_add(V::splat(0.693_359_4), m.add(small));
        x.or_finite(finite)
    }
}

const SQRT_HALF_BITS: i32 = 0x3f35_04f3;

/// Lanes for the target's baseline.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 8]);

impl Portable {
    #[inline(always)]
    fn each(self, function: impl Fn(f32) -> f32) -> Self {
        Self(self.0.map(function))
    }

    #[inline(always)]
    fn zip(self, other: Self, function: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| function(self.0[lane], other.0[lane])))
    }
}

impl Float for Portable {
    inlined! {
        splat(value: f32) -> Self = Self([value; 8]);
        add(self, other: Self) -> Self = self.zip(other, |a, b| a + b);
        sub(self, other: Self) -> Self = self.zip(other, |a, b| a - b);
        mul(self, other: Self) -> Self = self.zip(other, |a, b| a * b);
        mul_add(self, a: Self, b: Self) -> Self =
            Self(std::array::from_fn(|lane| self.0[lane].mul_add(a.0[lane], b.0[lane])));
        neg_mul_add(self, a: Self, b: Self) -> Self =
            Self(std::array::from_fn(|lane| (-self.0[lane]).mul_add(a.0[lane], b.0[lane])));
    }
}

impl Vector for Portable {
    const N: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises that the pointer holds eight elements.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises that the pointer holds eight elements.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
}

impl Lanes for Portable {
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut half::f16) {
        // SAFETY: the caller promises that the pointer holds eight elements.
        unsafe { to.cast::<[half::f16; 8]>().write_unaligned(self.0.map(half::f16::from_f32_const)) }
    }

    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        self.each(f32::sqrt)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if b > a { b } else { a })
    }

    #[inline(always)]
    unsafe fn split(self) -> (Self, Self) {
        let offset = self.0.map(|x| (x.to_bits() as i32).wrapping_sub(SQRT_HALF_BITS));
        let mantissa = |bits: i32| f32::from_bits(((bits & 0x007f_ffff) + SQRT_HALF_BITS) as u32);
        (Self(offset.map(|bits| (bits >> 23) as f32)), Self(offset.map(mantissa)))
    }

    #[inline(always)]
    unsafe fn or_finite(self, finite: Self) -> Self {
        self.zip(finite, |x, finite| if x < f32::INFINITY { finite } else { x })
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables {
    use super::Lanes;
    #[cfg(target_arch = "aarch64")]
    use super::neon::*;
    #[cfg(target_arch = "x86_64")]
    use super::x86::*;
    use crate::device::vector::for_vectors;

    // The maximum of x86 returns its second operand if either is NaN.
    for_vectors! {
        impl Lanes;
        store_f16(self, to: *mut half::f16) = [store_f16_8, store_f16_16, store_f16_4](self, to);
        sqrt(self) -> Self = [_mm256_sqrt_ps, _mm512_sqrt_ps, vsqrtq_f32](self);
        max(self, other: Self) -> Self = [_mm256_max_ps, _mm512_max_ps, larger](other, self);
        split(self) -> (Self, Self) = [split_8, split_16, split_4](self);
        or_finite(self, finite: Self) -> Self = [or_finite_8, or_finite_16, or_finite_4](self, finite);
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    pub(super) use std::arch::aarch64::*;

    use super::SQRT_HALF_BITS;
    pub(super) use crate::device::vector::neon::larger;
    use crate::device::vector::neon::registers;

    registers! {
        or_finite_4(values: float32x4_t, finite: float32x4_t) -> float32x4_t =
            vbslq_f32(vcltq_f32(values, vdupq_n_f32(f32::INFINITY)), finite, values);
        store_f16_4(values: float32x4_t, to: *mut half::f16) -> () =
            vst1_u16(to.cast(), vreinterpret_u16_f16(vcvt_f16_f32(values)));
        split_4(values: float32x4_t) -> (float32x4_t, float32x4_t) = {
            let base = vdupq_n_s32(SQRT_HALF_BITS);
            let offset = vsubq_s32(vreinterpretq_s32_f32(values), base);
            let mantissa = vandq_s32(offset, vdupq_n_s32(0x007f_ffff));
            (vcvtq_f32_s32(vshrq_n_s32::<23>(offset)), vreinterpretq_f32_s32(vaddq_s32(mantissa, base)))
        };
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    pub(super) use std::arch::x86_64::*;

    use super::SQRT_HALF_BITS;

    /// # Safety
    /// The machine has AVX2 and F16C, and `to` holds 8 elements.
    #[inline(always)]
    pub(super) unsafe fn store_f16_8(values: __m256, to: *mut half::f16) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)) }
    }

    /// # Safety
    /// The machine has AVX-512, and `to` holds 16 elements.
    #[inline(always)]
    pub(super) unsafe fn store_f16_16(values: __m512, to: *mut half::f16) {
        // SAFETY: the caller's promise.
        unsafe {
            let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values);
            _mm256_storeu_si256(to.cast(), half);
        }
    }

    macro_rules! split {
        ($name:ident($float:ty), $set:ident, $sub:ident, $add:ident, $and:ident, $shift:ident, $convert:ident, $bits:ident, $floats:ident) => {
            /// # Safety
            /// The machine has the instruction set of the vector.
            #[inline(always)]
            pub(super) unsafe fn $name(values: $float) -> ($float, $float) {
                // SAFETY: the caller's promise.
                unsafe {
                    let base = $set(SQRT_HALF_BITS);
                    let offset = $sub($bits(values), base);
                    let mantissa = $and(offset, $set(0x007f_ffff));
                    ($convert($shift::<23>(offset)), $floats($add(mantissa, base)))
                }
            }
        };
    }
    split!(
        split_8(__m256),
        _mm256_set1_epi32,
        _mm256_sub_epi32,
        _mm256_add_epi32,
        _mm256_and_si256,
        _mm256_srai_epi32,
        _mm256_cvtepi32_ps,
        _mm256_castps_si256,
        _mm256_castsi256_ps
    );
    split!(
        split_16(__m512),
        _mm512_set1_epi32,
        _mm512_sub_epi32,
        _mm512_add_epi32,
        _mm512_and_si512,
        _mm512_srai_epi32,
        _mm512_cvtepi32_ps,
        _mm512_castps_si512,
        _mm512_castsi512_ps
    );

    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    pub(super) unsafe fn or_finite_8(values: __m256, finite: __m256) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let is_finite = _mm256_cmp_ps::<_CMP_LT_OQ>(values, _mm256_set1_ps(f32::INFINITY));
            _mm256_blendv_ps(values, finite, is_finite)
        }
    }

    /// # Safety
    /// The machine has AVX-512.
    #[inline(always)]
    pub(super) unsafe fn or_finite_16(values: __m512, finite: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let is_finite = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(values, _mm512_set1_ps(f32::INFINITY));
            _mm512_mask_blend_ps(is_finite, values, finite)
        }
    }
}
