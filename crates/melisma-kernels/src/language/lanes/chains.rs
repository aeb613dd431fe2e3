//! Sixteen floats, as arrays and as vectors.

use half::{bf16, f16};

use crate::device::vector::{Float, Vector};

/// Chains of a sum.
pub(super) const CHAINS: usize = 16;

/// Sixteen floats, one for each chain.
///
/// # Safety
/// All methods: the machine has the instruction set of the implementing type, and pointers hold
/// sixteen elements.
pub trait Chains: Copy {
    unsafe fn zero() -> Self;
    unsafe fn splat(value: f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn load_f32(from: *const f32) -> Self;
    unsafe fn load_f16(from: *const f16) -> Self;
    unsafe fn load_bf16(from: *const bf16) -> Self;
    /// Returns `self * a + b`, rounded once.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// Returns the sum of each, in the order of [`super`].
    unsafe fn fold<const N: usize>(all: [Self; N]) -> [f32; N];
}

/// Implements [`Chains`] for an array of vectors from the two loads that widen, and the sums.
macro_rules! chains {
    ($vector:ty, $n:literal, $from_f16:expr, $from_bf16:expr, $fold:path) => {
        impl Chains for [$vector; $n] {
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller promises the instruction set.
                unsafe { Self::splat(0.0) }
            }
            #[inline(always)]
            unsafe fn splat(value: f32) -> Self {
                // SAFETY: the caller promises the instruction set.
                [unsafe { Float::splat(value) }; $n]
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                for (index, vector) in self.into_iter().enumerate() {
                    // SAFETY: the caller promises sixteen elements and the instruction set.
                    unsafe { vector.store(to.add(index * <$vector>::N)) };
                }
            }
            #[inline(always)]
            unsafe fn load_f32(from: *const f32) -> Self {
                // SAFETY: the caller promises sixteen elements and the instruction set.
                unsafe {
                    let mut all = Self::zero();
                    for (index, vector) in all.iter_mut().enumerate() {
                        *vector = <$vector>::load(from.add(index * <$vector>::N));
                    }
                    all
                }
            }
            #[inline(always)]
            unsafe fn load_f16(from: *const f16) -> Self {
                // SAFETY: the caller promises sixteen elements and the instruction set.
                unsafe {
                    let mut all = Self::zero();
                    for (index, vector) in all.iter_mut().enumerate() {
                        *vector = $from_f16(from.add(index * <$vector>::N));
                    }
                    all
                }
            }
            #[inline(always)]
            unsafe fn load_bf16(from: *const bf16) -> Self {
                // SAFETY: the caller promises sixteen elements and the instruction set.
                unsafe {
                    let mut all = Self::zero();
                    for (index, vector) in all.iter_mut().enumerate() {
                        *vector = $from_bf16(from.add(index * <$vector>::N));
                    }
                    all
                }
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                let mut all = self;
                for (vector, (a, b)) in all.iter_mut().zip(a.into_iter().zip(b)) {
                    // SAFETY: the caller promises the instruction set.
                    *vector = unsafe { Float::mul_add(*vector, a, b) };
                }
                all
            }
            #[inline(always)]
            unsafe fn fold<const N: usize>(all: [Self; N]) -> [f32; N] {
                // SAFETY: the caller promises the instruction set.
                unsafe { $fold(all) }
            }
        }
    };
}

/// # Safety
/// The pointer holds one element.
#[inline(always)]
unsafe fn one_f16(from: *const f16) -> f32 {
    // SAFETY: the caller promises one element.
    unsafe { (*from).to_f32_const() }
}

/// # Safety
/// The pointer holds one element.
#[inline(always)]
unsafe fn one_bf16(from: *const bf16) -> f32 {
    // SAFETY: the caller promises one element.
    f32::from_bits(u32::from(unsafe { *from }.to_bits()) << 16)
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use chains;
chains!(f32, 16, one_f16, one_bf16, fold);

/// # Safety
/// None; the other sums need an instruction set.
#[inline(always)]
unsafe fn fold<const N: usize>(mut all: [[f32; CHAINS]; N]) -> [f32; N] {
    for half in [8, 4, 2, 1] {
        for chains in &mut all {
            for lane in 0..half {
                chains[lane] += chains[lane + half];
            }
        }
    }
    let mut sums = [0.0; N];
    for (sum, chains) in sums.iter_mut().zip(all) {
        *sum = chains[0];
    }
    sums
}
