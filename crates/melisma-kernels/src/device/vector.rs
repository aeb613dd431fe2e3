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

/// Implements a trait for the vectors of AVX2 and AVX-512 from one table: the method, its two
/// intrinsics, and their arguments.
#[cfg(target_arch = "x86_64")]
macro_rules! for_x86 {
    (
        impl $trait:ident for [$narrow:ty { $($narrow_items:tt)* }, $wide:ty { $($wide_items:tt)* }];
        $($name:ident($($parameter:tt $(: $type:ty)?),*) $(-> $result:ty)? = [$on_narrow:ident, $on_wide:ident]($($argument:expr),*);)*
    ) => {
        impl $trait for $narrow {
            $($narrow_items)*
            $(
                #[inline(always)]
                unsafe fn $name($($parameter $(: $type)?),*) $(-> $result)? {
                    // SAFETY: the caller promises AVX2, and that pointers hold a vector.
                    unsafe { $on_narrow($($argument),*) }
                }
            )*
        }
        impl $trait for $wide {
            $($wide_items)*
            $(
                #[inline(always)]
                unsafe fn $name($($parameter $(: $type)?),*) $(-> $result)? {
                    // SAFETY: the caller promises AVX-512, and that pointers hold a vector.
                    unsafe { $on_wide($($argument),*) }
                }
            )*
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use for_x86;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Float, Vector};

    for_x86! {
        impl Float for [__m256 {}, __m512 {}];
        splat(value: f32) -> Self = [_mm256_set1_ps, _mm512_set1_ps](value);
        add(self, other: Self) -> Self = [_mm256_add_ps, _mm512_add_ps](self, other);
        sub(self, other: Self) -> Self = [_mm256_sub_ps, _mm512_sub_ps](self, other);
        mul(self, other: Self) -> Self = [_mm256_mul_ps, _mm512_mul_ps](self, other);
        mul_add(self, a: Self, b: Self) -> Self = [_mm256_fmadd_ps, _mm512_fmadd_ps](self, a, b);
        neg_mul_add(self, a: Self, b: Self) -> Self = [_mm256_fnmadd_ps, _mm512_fnmadd_ps](self, a, b);
    }

    for_x86! {
        impl Vector for [__m256 { const N: usize = 8; }, __m512 { const N: usize = 16; }];
        load(from: *const f32) -> Self = [_mm256_loadu_ps, _mm512_loadu_ps](from);
        store(self, to: *mut f32) = [_mm256_storeu_ps, _mm512_storeu_ps](to, self);
    }
}
