//! The types of samples and values as data, so that the kernel is compiled once for all of them, and in this crate.

use half::f16;

use super::lanes::Lanes;

/// The samples of an item.
#[derive(Clone, Copy)]
pub enum Samples<'a> {
    I16(&'a [i16]),
    F32(&'a [f32]),
}

/// The first of the values that are written.
#[derive(Clone, Copy)]
pub enum Values {
    F16(*mut f16),
    F32(*mut f32),
}

/// A type of samples.
pub trait Sample: Copy + Sync {
    fn to_f32(self) -> f32;
    fn samples(samples: &[Self]) -> Samples<'_>;
}

impl Sample for i16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self) * (1.0 / 32_768.0)
    }

    fn samples(samples: &[Self]) -> Samples<'_> {
        Samples::I16(samples)
    }
}

impl Sample for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    fn samples(samples: &[Self]) -> Samples<'_> {
        Samples::F32(samples)
    }
}

/// A type of values.
pub trait Value: Copy + Send + Sync + PartialOrd {
    fn from_f32(value: f32) -> Self;
    fn values(first: *mut Self) -> Values;
}

impl Value for f32 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    fn values(first: *mut Self) -> Values {
        Values::F32(first)
    }
}

impl Value for f16 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }

    fn values(first: *mut Self) -> Values {
        Values::F16(first)
    }
}

impl Values {
    /// Stores the first `n` lanes of `values` from index `at` on.
    ///
    /// # Safety
    /// There are `at + n` values; the machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn store<V: Lanes>(self, at: usize, values: V, n: usize) {
        // SAFETY: the caller's promise; a vector has at most 16 lanes.
        unsafe {
            match self {
                Self::F32(first) if n == V::N => values.store(first.add(at)),
                Self::F16(first) if n == V::N => values.store_f16(first.add(at)),
                Self::F32(first) => {
                    let mut all = [0f32; 16];
                    values.store(all.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(all.as_ptr(), first.add(at), n);
                }
                Self::F16(first) => {
                    let mut all = [f16::ZERO; 16];
                    values.store_f16(all.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(all.as_ptr(), first.add(at), n);
                }
            }
        }
    }

    /// Stores one value at index `at`.
    ///
    /// # Safety
    /// There are `at + 1` values.
    #[inline(always)]
    pub(super) unsafe fn set(self, at: usize, value: f32) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::F32(first) => *first.add(at) = value,
                Self::F16(first) => *first.add(at) = f16::from_f32(value),
            }
        }
    }
}
