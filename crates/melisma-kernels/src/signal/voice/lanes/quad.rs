//! Four samples at once.

use super::Number;
use crate::device::vector::Float;

/// Four samples of a vector, computed side by side to hide their latencies.
#[derive(Clone, Copy)]
pub(in crate::signal::voice) struct Quad<T>(pub(in crate::signal::voice) [T; 4]);

impl<V: Number> Quad<V> {
    #[inline(always)]
    pub(in crate::signal::voice) fn all(value: V) -> Self {
        Self([value; 4])
    }

    /// Returns `first` and the next three in steps of `stride`.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    pub(in crate::signal::voice) unsafe fn steps(first: V::Int, stride: V::Int) -> Quad<V::Int> {
        // SAFETY: the caller promises the instruction set of `V`.
        unsafe {
            let second = V::add_int(first, stride);
            let twice = V::add_int(stride, stride);
            Quad([first, second, V::add_int(first, twice), V::add_int(second, twice)])
        }
    }
}

macro_rules! four {
    ($($name:ident($first:tt $(, $other:ident)*) -> $result:ty;)+) => { $(
        #[inline(always)]
        unsafe fn $name($first $(, $other: Self)*) -> $result {
            // SAFETY: the caller promises the instruction set of `V`.
            unsafe {
                Quad([
                    V::$name($first.0[0] $(, $other.0[0])*),
                    V::$name($first.0[1] $(, $other.0[1])*),
                    V::$name($first.0[2] $(, $other.0[2])*),
                    V::$name($first.0[3] $(, $other.0[3])*),
                ])
            }
        }
    )+ };
}

macro_rules! four_ints {
    ($($name:ident$(<$bits:ident>)?($first:ident $(, $other:ident)*) -> $result:ty;)+) => { $(
        #[inline(always)]
        unsafe fn $name$(<const $bits: u32>)?($first: Self::Int $(, $other: Self::Int)*) -> $result {
            // SAFETY: the caller promises the instruction set of `V`.
            unsafe {
                Quad([
                    V::$name$(::<$bits>)?($first.0[0] $(, $other.0[0])*),
                    V::$name$(::<$bits>)?($first.0[1] $(, $other.0[1])*),
                    V::$name$(::<$bits>)?($first.0[2] $(, $other.0[2])*),
                    V::$name$(::<$bits>)?($first.0[3] $(, $other.0[3])*),
                ])
            }
        }
    )+ };
}

impl<V: Number> Float for Quad<V> {
    four! {
        add(self, a) -> Self;
        sub(self, a) -> Self;
        mul(self, a) -> Self;
        mul_add(self, a, b) -> Self;
        neg_mul_add(self, a, b) -> Self;
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller promises the instruction set of `V`.
        unsafe { Self([V::splat(value); 4]) }
    }
}

impl<V: Number> Number for Quad<V> {
    type Int = Quad<V::Int>;
    four! {
        div(self, a) -> Self;
        min(self, a) -> Self;
        max(self, a) -> Self;
        mul_sub(self, a, b) -> Self;
        truncate(self) -> Self::Int;
        round(self) -> Self::Int;
        bits(self) -> Self::Int;
    }
    four_ints! {
        from_bits(a) -> Self;
        to_float(a) -> Self;
        add_int(a, b) -> Self::Int;
        sub_int(a, b) -> Self::Int;
        mul_int(a, b) -> Self::Int;
        and(a, b) -> Self::Int;
        xor(a, b) -> Self::Int;
        abs_int(a) -> Self::Int;
        shift_left<BITS>(a) -> Self::Int;
        shift_right<BITS>(a) -> Self::Int;
    }
    #[inline(always)]
    unsafe fn splat_int(value: u32) -> Self::Int {
        // SAFETY: the caller promises the instruction set of `V`.
        unsafe { Quad([V::splat_int(value); 4]) }
    }
    #[inline(always)]
    unsafe fn look_up(table: &[f32; 16], index: Self::Int) -> Self {
        // SAFETY: the caller promises the instruction set of `V`.
        unsafe {
            Self([
                V::look_up(table, index.0[0]),
                V::look_up(table, index.0[1]),
                V::look_up(table, index.0[2]),
                V::look_up(table, index.0[3]),
            ])
        }
    }
}
