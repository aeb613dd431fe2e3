//! Eight lanes in two registers, so that what is written for eight lanes of AVX2 also runs on NEON.
//! Two registers hide more of an operation's latency than one, and share a loop and its scalars.

use std::arch::aarch64::*;

/// Two registers: lanes 0 to 3, and 4 to 7.
#[derive(Clone, Copy)]
pub struct Pair<T>(pub T, pub T);

/// Eight floats.
pub type Neon = Pair<float32x4_t>;

/// Lanes of a register.
const HALF: usize = 4;

/// An argument for both registers.
pub trait Halves: Copy {
    type Half;
    /// Returns what register `INDEX` takes of it.
    ///
    /// # Safety
    /// A pointer holds eight elements.
    unsafe fn half<const INDEX: usize>(self) -> Self::Half;
}

/// A result of both registers.
pub trait Join<T> {
    fn join(low: T, high: T) -> Self;
}

macro_rules! halves {
    ($({$($element:ident)?} $type:ty => $half:ty: $self:ident, $index:ident, $value:expr;)+) => { $(
        impl$(<$element: Copy>)? Halves for $type {
            type Half = $half;
            #[inline(always)]
            unsafe fn half<const $index: usize>($self) -> $half {
                $value
            }
        }
    )+ };
}
halves! {
    {T} Pair<T> => T: self, INDEX, if INDEX == 0 { self.0 } else { self.1 };
    {T} [Pair<T>; 2] => [T; 2]: self, INDEX, if INDEX == 0 { [self[0].0, self[1].0] } else { [self[0].1, self[1].1] };
    {T} *const T => Self: self, INDEX, self.wrapping_add(HALF * INDEX);
    {T} *mut T => Self: self, INDEX, self.wrapping_add(HALF * INDEX);
    {T} &[T; 16] => Self: self, _INDEX, self;
    {} f32 => Self: self, _INDEX, self;
    {} i32 => Self: self, _INDEX, self;
}

macro_rules! join {
    ($({$($element:ident)?} $half:ty => $type:ty: $low:pat, $high:pat, $value:expr;)+) => { $(
        impl$(<$element>)? Join<$half> for $type {
            #[inline(always)]
            fn join($low: $half, $high: $half) -> Self {
                $value
            }
        }
    )+ };
}
join! {
    {T} T => Pair<T>: low, high, Pair(low, high);
    {T} [T; 2] => [Pair<T>; 2]: [a, b], [c, d], [Pair(a, c), Pair(b, d)];
    {T} (T, T) => (Pair<T>, Pair<T>): (a, b), (c, d), (Pair(a, c), Pair(b, d));
    {} () => (): (), (), ();
}

/// Defines functions of registers, and of pointers to a register's elements, from an expression.
macro_rules! registers {
    ($(
        $(#[$about:meta])*
        $name:ident$(<const $bits:ident: u32>)?($($parameter:tt: $type:ty),*) -> $result:ty = $value:expr;
    )+) => { $(
        $(#[$about])*
        ///
        /// # Safety
        /// Pointers hold what is read or written.
        #[inline(always)]
        pub(crate) unsafe fn $name$(<const $bits: u32>)?($($parameter: $type),*) -> $result {
            // SAFETY: every 64-bit Arm machine has NEON; the caller's promise.
            unsafe { $value }
        }
    )+ };
}
pub(crate) use registers;

registers! {
    /// Returns `a * b + c`, rounded once.
    fused(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
    /// Returns `c - a * b`, rounded once.
    negative_fused(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmsq_f32(c, a, b);
    /// Returns `a` where it is larger, else `b`. NEON's own maximum differs where one is NaN or both are zeros.
    larger(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcgtq_f32(a, b), a, b);
    /// Returns `a` where it is smaller, else `b`.
    smaller(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcltq_f32(a, b), a, b);
}
