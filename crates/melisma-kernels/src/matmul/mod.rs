//! `matmul`: C = A·B, row-major, A [M, K], B [K, N], C [M, N]; stored as f32, f16 or bf16, summed in f32.
//!
//! On the CPU every element of C is one chain of fused multiply-adds over k = 0, 1, ..., K-1,
//! starting from 0. Threads, chunks, blocking and instruction sets do not change a bit. On CUDA the
//! algorithm is chosen once per plan, never splits K, and is used for every chunk of rows, so
//! chunks give the same bits as the whole.
//!
//! # Why our own GEMM on the CPU?
//!
//! The `gemm` crate is fast, but its blocking depends on the shape, so it cannot promise one order
//! of summation. `melisma bench runtime` measures both.

mod chunked;
mod cpu;
pub(crate) mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
pub(crate) mod tile;

use std::marker::PhantomData;

pub use chunked::Chunk;

use half::{bf16, f16};

use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Device, Element, Error, Isa, Queue, Result, View, ViewMut, convert};

/// A product of an M x K and a K x N matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matmul {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Lets a GPU round f32 operands to TF32 (10 bits of mantissa). Off by default; the CPU ignores it.
    pub tf32: bool,
}

/// A storage type for matrix elements.
pub trait Scalar: Element + sealed::Scalar {}

mod sealed {
    use super::Isa;

    pub trait Scalar: Sized {
        /// Converts this storage to floats.
        fn widen(isa: Isa, src: &[Self], dst: &mut [f32]);
        /// Returns the slice itself if it already holds floats.
        fn floats(src: &[Self]) -> Option<&[f32]>;
        /// Converts floats to this storage, rounded to nearest even.
        fn narrow(isa: Isa, src: &[f32], dst: &mut [Self]);
    }
}

impl sealed::Scalar for f32 {
    #[inline(always)]
    fn widen(_: Isa, src: &[Self], dst: &mut [f32]) {
        dst.copy_from_slice(src);
    }

    fn floats(src: &[Self]) -> Option<&[f32]> {
        Some(src)
    }

    fn narrow(_: Isa, src: &[f32], dst: &mut [Self]) {
        dst.copy_from_slice(src);
    }
}

macro_rules! half_storage {
    ($($type:ty),+) => { $(
        impl sealed::Scalar for $type {
            fn widen(isa: Isa, src: &[Self], dst: &mut [f32]) {
                convert::slice(isa, src, dst);
            }

            fn floats(_: &[Self]) -> Option<&[f32]> {
                None
            }

            fn narrow(isa: Isa, src: &[f32], dst: &mut [Self]) {
                convert::slice(isa, src, dst);
            }
        }
        impl Scalar for $type {}
    )+ };
}
half_storage!(f16, bf16);
impl Scalar for f32 {}

/// Stores `values` as elements of `T`, rounded to nearest even.
///
/// # Panics
/// `values.len() != stored.len()`
pub fn store<T: Scalar>(values: &[f32], stored: &mut [T]) {
    T::narrow(Isa::best(), values, stored);
}

/// Loads stored elements as floats.
///
/// # Panics
/// `stored.len() != values.len()`
pub fn load<T: Scalar>(stored: &[T], values: &mut [f32]) {
    T::widen(Isa::best(), stored, values);
}

impl Matmul {
    /// Creates a product with TF32 off.
    pub fn new(m: usize, k: usize, n: usize) -> Self {
        Self { m, k, n, tf32: false }
    }

    /// Returns the floating-point operations of one run.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.k as f64 * self.n as f64
    }

    /// Plans the product on `device`.
    ///
    /// # Errors
    /// A size overflows, or the device has no algorithm for it.
    pub fn plan<T: Scalar>(&self, device: &Device) -> Result<Plan<T>> {
        let sizes = [(self.m, self.k), (self.k, self.n), (self.m, self.n)];
        let fits = |(rows, columns): (usize, usize)| {
            rows.checked_mul(columns).and_then(|len| len.checked_mul(size_of::<f32>())).is_some()
        };
        if !sizes.into_iter().all(fits) {
            return Err(Error::invalid(format!("matmul: {self:?} overflows")));
        }
        let on = OnDevice::new(device, |_| Ok(()), |cuda| cuda::Prepared::new::<T>(cuda, self))?;
        Ok(Plan { matmul: *self, on, storage: PhantomData })
    }
}

/// A prepared product on one device.
#[derive(Debug)]
pub struct Plan<T> {
    matmul: Matmul,
    on: OnDevice<(), cuda::Prepared>,
    storage: PhantomData<fn(T)>,
}

impl<T: Scalar> Plan<T> {
    /// Computes `c` = `a`·`b`.
    ///
    /// # Errors
    /// A view's length or place differs from the plan, or the device fails.
    pub fn run(&self, queue: &Queue, a: View<'_, T>, b: View<'_, T>, c: ViewMut<'_, T>) -> Result<()> {
        self.run_rows(queue, self.matmul.m, a, b, c)
    }

    /// Works like [`Plan::run`] for only the first `m` rows: `a` and `c` hold that many.
    fn run_rows(&self, queue: &Queue, m: usize, a: View<'_, T>, b: View<'_, T>, c: ViewMut<'_, T>) -> Result<()> {
        let Matmul { k, n, .. } = self.matmul;
        check_len("matmul: A", a.len(), m * k)?;
        check_len("matmul: B", b.len(), k * n)?;
        check_len("matmul: C", c.len(), m * n)?;
        let _span = kernel_span!(queue, "matmul", [m, k, n], (m * k + k * n + m * n) * size_of::<T>());
        match self.on.with(queue, "matmul")? {
            Pair::Cpu((), queue) => cpu::run(queue, Matmul { m, ..self.matmul }, a.host()?, b.host()?, c.host()?),
            Pair::Cuda(prepared, queue) => {
                prepared.run(queue, Matmul { m, ..self.matmul }, a.cuda()?, b.cuda()?, c.cuda()?)
            }
        }
    }
}
