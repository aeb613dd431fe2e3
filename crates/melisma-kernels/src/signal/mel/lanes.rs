//! Vectors whose lanes are frames: every lane does the same work on its own frame, so no result depends on which frames
//! are worked on together. The operations are the same on every instruction set, and so are their bits.

/// A vector of f32. Each method is one instruction where the machine has it.
///
/// # Safety
/// The machine has the instruction set of the implementing type; pointers hold [`Lanes::N`] elements.
pub trait Lanes: Copy {
    const N: usize;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Rounds to half precision, ties to even.
    unsafe fn store_f16(self, to: *mut half::f16);
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * a + b`, rounded once.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// `b - self * a`, rounded once.
    unsafe fn neg_mul_add(self, a: Self, b: Self) -> Self;
    unsafe fn sqrt(self) -> Self;
    /// The larger of both; NaN in `self` stays.
    unsafe fn max(self, other: Self) -> Self;
    /// For positive normal numbers, x = m * 2^e with m between sqrt(1/2) and sqrt(2): (e, m).
    unsafe fn split(self) -> (Self, Self);
    /// `self` where it is infinite or NaN, else `finite`.
    unsafe fn or_finite(self, finite: Self) -> Self;
}

/// The natural logarithm of positive normal numbers, within 1.5 units in the last place; infinity and NaN stay.
/// The polynomial is that of the Cephes library.
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
    // SAFETY: the caller's promise, for the whole function.
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

/// Lanes of the target's baseline.
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

impl Lanes for Portable {
    const N: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut half::f16) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[half::f16; 8]>().write_unaligned(self.0.map(half::f16::from_f32_const)) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn mul_add(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane].mul_add(a.0[lane], b.0[lane])))
    }

    #[inline(always)]
    unsafe fn neg_mul_add(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|lane| (-self.0[lane]).mul_add(a.0[lane], b.0[lane])))
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Lanes, SQRT_HALF_BITS};

    macro_rules! lanes {
        ($type:ty, $n:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident,
         $mul_add:ident, $neg_mul_add:ident, $sqrt:ident, $max:ident, $split:item, $or_finite:item, $store_f16:item) => {
            impl Lanes for $type {
                const N: usize = $n;

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: the caller's promise, here and below.
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    // SAFETY: as above.
                    unsafe { $store(to, self) }
                }

                $store_f16

                #[inline(always)]
                unsafe fn splat(value: f32) -> Self {
                    // SAFETY: as above.
                    unsafe { $splat(value) }
                }

                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $add(self, other) }
                }

                #[inline(always)]
                unsafe fn sub(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $sub(self, other) }
                }

                #[inline(always)]
                unsafe fn mul(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $mul(self, other) }
                }

                #[inline(always)]
                unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $mul_add(self, a, b) }
                }

                #[inline(always)]
                unsafe fn neg_mul_add(self, a: Self, b: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $neg_mul_add(self, a, b) }
                }

                #[inline(always)]
                unsafe fn sqrt(self) -> Self {
                    // SAFETY: as above.
                    unsafe { $sqrt(self) }
                }

                #[inline(always)]
                unsafe fn max(self, other: Self) -> Self {
                    // The instruction returns its second operand where either is NaN.
                    // SAFETY: as above.
                    unsafe { $max(other, self) }
                }

                $split

                $or_finite
            }
        };
    }

    lanes!(
        __m256,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_fnmadd_ps,
        _mm256_sqrt_ps,
        _mm256_max_ps,
        #[inline(always)]
        unsafe fn split(self) -> (Self, Self) {
            // SAFETY: the trait's promise.
            unsafe {
                let base = _mm256_set1_epi32(SQRT_HALF_BITS);
                let offset = _mm256_sub_epi32(_mm256_castps_si256(self), base);
                let exponent = _mm256_cvtepi32_ps(_mm256_srai_epi32::<23>(offset));
                let mantissa = _mm256_and_si256(offset, _mm256_set1_epi32(0x007f_ffff));
                (exponent, _mm256_castsi256_ps(_mm256_add_epi32(mantissa, base)))
            }
        },
        #[inline(always)]
        unsafe fn or_finite(self, finite: Self) -> Self {
            // SAFETY: the trait's promise.
            unsafe {
                let is_finite = _mm256_cmp_ps::<_CMP_LT_OQ>(self, _mm256_set1_ps(f32::INFINITY));
                _mm256_blendv_ps(self, finite, is_finite)
            }
        },
        #[inline(always)]
        unsafe fn store_f16(self, to: *mut half::f16) {
            // SAFETY: the trait's promise.
            unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self)) }
        }
    );

    lanes!(
        __m512,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_fnmadd_ps,
        _mm512_sqrt_ps,
        _mm512_max_ps,
        #[inline(always)]
        unsafe fn split(self) -> (Self, Self) {
            // SAFETY: the trait's promise.
            unsafe {
                let base = _mm512_set1_epi32(SQRT_HALF_BITS);
                let offset = _mm512_sub_epi32(_mm512_castps_si512(self), base);
                let exponent = _mm512_cvtepi32_ps(_mm512_srai_epi32::<23>(offset));
                let mantissa = _mm512_and_si512(offset, _mm512_set1_epi32(0x007f_ffff));
                (exponent, _mm512_castsi512_ps(_mm512_add_epi32(mantissa, base)))
            }
        },
        #[inline(always)]
        unsafe fn or_finite(self, finite: Self) -> Self {
            // SAFETY: the trait's promise.
            unsafe {
                let is_finite = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self, _mm512_set1_ps(f32::INFINITY));
                _mm512_mask_blend_ps(is_finite, self, finite)
            }
        },
        #[inline(always)]
        unsafe fn store_f16(self, to: *mut half::f16) {
            // SAFETY: the trait's promise.
            unsafe {
                let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self);
                _mm256_storeu_si256(to.cast(), half);
            }
        }
    );
}
