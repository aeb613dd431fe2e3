//! Vectors whose lanes are voices. Every operation is one IEEE operation per lane, so a voice has
//! the same bits in every lane of every instruction set, and as a scalar.

#[cfg(target_arch = "aarch64")]
mod neon;
mod quad;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(in crate::signal::voice) use quad::Quad;

use crate::device::vector::{Float, Vector, inlined};

/// Floats with integers of the same shape.
///
/// # Safety
/// All methods: as [`Float`].
pub(super) trait Number: Float {
    type Int: Copy;
    unsafe fn div(self, other: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// Returns `self * a - b`, rounded once.
    unsafe fn mul_sub(self, a: Self, b: Self) -> Self;
    /// Rounds toward zero; the value fits.
    unsafe fn truncate(self) -> Self::Int;
    /// Rounds to nearest, ties to even; the value fits.
    unsafe fn round(self) -> Self::Int;
    unsafe fn bits(self) -> Self::Int;
    unsafe fn from_bits(bits: Self::Int) -> Self;
    unsafe fn splat_int(value: u32) -> Self::Int;
    unsafe fn add_int(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn sub_int(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn mul_int(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn and(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn xor(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn abs_int(a: Self::Int) -> Self::Int;
    unsafe fn shift_left<const BITS: u32>(a: Self::Int) -> Self::Int;
    unsafe fn shift_right<const BITS: u32>(a: Self::Int) -> Self::Int;
    /// Converts signed integers.
    unsafe fn to_float(int: Self::Int) -> Self;
    /// Looks up entries of a table, each index below 16.
    unsafe fn look_up(table: &[f32; 16], index: Self::Int) -> Self;
}

/// A vector of [`Number`]s.
///
/// # Safety
/// All methods: as [`Vector`].
pub(super) trait Lanes: Number + Vector {
    unsafe fn load_int(from: *const u32) -> Self::Int;
    unsafe fn store_int(int: Self::Int, to: *mut u32);
    /// Returns `(high, low) + (a, b)` as 64-bit numbers.
    unsafe fn add_wide(wide: [Self::Int; 2], other: [Self::Int; 2]) -> [Self::Int; 2];
}

/// One voice alone.
impl Number for f32 {
    type Int = u32;

    inlined! {
        div(self, other: Self) -> Self = self / other;
        min(self, other: Self) -> Self = if self < other { self } else { other };
        max(self, other: Self) -> Self = if self > other { self } else { other };
        mul_sub(self, a: Self, b: Self) -> Self = f32::mul_add(self, a, -b);
        truncate(self) -> u32 = self as i32 as u32;
        round(self) -> u32 = self.round_ties_even() as i32 as u32;
        bits(self) -> u32 = self.to_bits();
        from_bits(bits: u32) -> Self = f32::from_bits(bits);
        splat_int(value: u32) -> u32 = value;
        add_int(a: u32, b: u32) -> u32 = a.wrapping_add(b);
        sub_int(a: u32, b: u32) -> u32 = a.wrapping_sub(b);
        mul_int(a: u32, b: u32) -> u32 = a.wrapping_mul(b);
        and(a: u32, b: u32) -> u32 = a & b;
        xor(a: u32, b: u32) -> u32 = a ^ b;
        abs_int(a: u32) -> u32 = (a as i32).unsigned_abs();
        shift_left<const BITS: u32>(a: u32) -> u32 = a << BITS;
        shift_right<const BITS: u32>(a: u32) -> u32 = a >> BITS;
        to_float(int: u32) -> f32 = int as i32 as f32;
        look_up(table: &[f32; 16], index: u32) -> f32 = table[index as usize & 15];
    }
}

impl Lanes for f32 {
    #[inline(always)]
    unsafe fn load_int(from: *const u32) -> u32 {
        // SAFETY: the caller promises that the pointer holds one element.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store_int(int: u32, to: *mut u32) {
        // SAFETY: the caller promises that the pointer holds one element.
        unsafe { *to = int }
    }
    #[inline(always)]
    unsafe fn add_wide([high, low]: [u32; 2], [a, b]: [u32; 2]) -> [u32; 2] {
        let (low, carry) = low.overflowing_add(b);
        [high.wrapping_add(a).wrapping_add(u32::from(carry)), low]
    }
}
