//! Vectors of floats, one type per instruction set. Every operation is one IEEE operation per lane,
//! so a lane has the same bits in any vector and as a scalar.

/// One float, or several side by side. Each method is one instruction where the machine has it.
///
/// # Safety
/// All methods: the machine has the instruction set of the implementing type.
pub trait Float: Copy {
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// Returns `self * a + b`, rounded once.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// Returns `b - self * a`, rounded once.
    unsafe fn neg_mul_add(self, a: Self, b: Self) -> Self;
}

/// Floats that are contiguous in memory.
///
/// # Safety
/// All methods: as for [`Float`], and pointers hold [`Vector::N`] elements.
pub trait Vector: Float {
    const N: usize;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
}

/// Methods that are one expression: `unsafe` like the trait's, and always inlined.
macro_rules! inlined {
    ($(
        $name:ident$(<const $bits:ident: u32>)?($($parameter:tt $(: $type:ty)?),*) -> $result:ty = $value:expr;
    )+) => { $(
        #[inline(always)]
        unsafe fn $name$(<const $bits: u32>)?($($parameter $(: $type)?),*) -> $result {
            $value
        }
    )+ };
}
pub(crate) use inlined;

impl Float for f32 {
    inlined! {
        splat(value: f32) -> Self = value;
        add(self, other: Self) -> Self = self + other;
        sub(self, other: Self) -> Self = self - other;
        mul(self, other: Self) -> Self = self * other;
        mul_add(self, a: Self, b: Self) -> Self = f32::mul_add(self, a, b);
        neg_mul_add(self, a: Self, b: Self) -> Self = f32::mul_add(-self, a, b);
    }
}

impl Vector for f32 {
    const N: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises that the pointer holds one float.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises that the pointer holds one float.
        unsafe { *to = self }
    }
}

/// Implements a trait for the vectors of AVX2, AVX-512 and NEON from one table: the method, its three
/// intrinsics, and their arguments. NEON's takes half a vector. After `for` stand items of each.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! for_vectors {
    (
        impl $trait:ident $(for [{$($avx2_items:tt)*} {$($avx512_items:tt)*} {$($neon_items:tt)*}])?;
        $($name:ident($($parameter:tt $(: $type:ty)?),*) $(-> $result:ty)? = [$on_avx2:ident, $on_avx512:ident, $on_neon:ident]($($argument:expr),*);)*
    ) => {
        #[cfg(target_arch = "x86_64")]
        impl $trait for std::arch::x86_64::__m256 {
            $($($avx2_items)*)?
            $(
                #[inline(always)]
                unsafe fn $name($($parameter $(: $type)?),*) $(-> $result)? {
                    // SAFETY: the caller promises AVX2, and that pointers hold a vector.
                    unsafe { $on_avx2($($argument),*) }
                }
            )*
        }
        #[cfg(target_arch = "x86_64")]
        impl $trait for std::arch::x86_64::__m512 {
            $($($avx512_items)*)?
            $(
                #[inline(always)]
                unsafe fn $name($($parameter $(: $type)?),*) $(-> $result)? {
                    // SAFETY: the caller promises AVX-512, and that pointers hold a vector.
                    unsafe { $on_avx512($($argument),*) }
                }
            )*
        }
        #[cfg(target_arch = "aarch64")]
        impl $trait for $crate::device::vector::Neon {
            $($($neon_items)*)?
            $(
                #[inline(always)]
                unsafe fn $name($($parameter $(: $type)?),*) $(-> $result)? {
                    use $crate::device::vector::neon::{Halves, Join};
                    // SAFETY: the caller promises that pointers hold a vector.
                    unsafe {
                        Join::join(
                            $on_neon($(Halves::half::<0>($argument)),*),
                            $on_neon($(Halves::half::<1>($argument)),*),
                        )
                    }
                }
            )*
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use for_vectors;

#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables {
    #[cfg(target_arch = "aarch64")]
    use std::arch::aarch64::*;
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::*;

    #[cfg(target_arch = "aarch64")]
    use super::neon::{fused, negative_fused};
    use super::{Float, Vector};

    for_vectors! {
        impl Float;
        splat(value: f32) -> Self = [_mm256_set1_ps, _mm512_set1_ps, vdupq_n_f32](value);
        add(self, other: Self) -> Self = [_mm256_add_ps, _mm512_add_ps, vaddq_f32](self, other);
        sub(self, other: Self) -> Self = [_mm256_sub_ps, _mm512_sub_ps, vsubq_f32](self, other);
        mul(self, other: Self) -> Self = [_mm256_mul_ps, _mm512_mul_ps, vmulq_f32](self, other);
        mul_add(self, a: Self, b: Self) -> Self = [_mm256_fmadd_ps, _mm512_fmadd_ps, fused](self, a, b);
        neg_mul_add(self, a: Self, b: Self) -> Self = [_mm256_fnmadd_ps, _mm512_fnmadd_ps, negative_fused](self, a, b);
    }

    for_vectors! {
        impl Vector for [{ const N: usize = 8; } { const N: usize = 16; } { const N: usize = 8; }];
        load(from: *const f32) -> Self = [_mm256_loadu_ps, _mm512_loadu_ps, vld1q_f32](from);
        store(self, to: *mut f32) = [_mm256_storeu_ps, _mm512_storeu_ps, vst1q_f32](to, self);
    }
}
