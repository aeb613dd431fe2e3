//! `product`: y = x · wᵀ for few rows. x `[R, K]`, w `[O, K]` as in the file, y `[R, O]`.
//!
//! y[r, o] = Σ_k w[o, k] · x[r, k] in f32, in the order of `lanes`: sixteen chains of fused
//! multiply-adds, whatever the rows, outputs, threads and instruction set. Weights of f16 and bf16
//! are widened exactly. Several matrices with the same K can be stacked: their outputs follow each
//! other. A run may compute some of the outputs only.
//!
//! On a GPU weights are bf16 and K is a multiple of 8. A float of x is multiplied in two bf16 parts,
//! so a product errs by at most 2^-17 of itself; where all matrices may be rounded, x is rounded to
//! bf16 as well. Sums are f32, in an order that K alone decides. An infinite x makes its sums infinite
//! or NaN. Results agree with the exact ones within 1e-5 · √K for factors below 1, those of rounded x
//! with the exact ones of x in bf16.
//!
//! K = 2, w = ((1, 10), (2, 0)): x = (3, 4) becomes (43, 6).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use super::lanes::Finish;
use super::weight::Weight;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, View, ViewMut};

/// A product prepared for one device.
#[derive(Debug)]
pub struct Plan {
    k: usize,
    n_outputs: usize,
    on: OnDevice<cpu::Prepared, cuda::Prepared>,
}

/// What a run works on.
#[derive(Debug)]
pub struct Pass<'a> {
    /// `[R, K]`
    pub x: View<'a, f32>,
    /// The outputs to compute, of those of all matrices.
    pub outputs: Range<usize>,
    /// What happens to the sums.
    pub finish: Finish,
    /// `[R, outputs]`
    pub y: ViewMut<'a, f32>,
}

/// Prepares a product with stacked matrices on `device`.
///
/// # Errors
/// No matrix, matrices of different K, weights that the device does not take, or the budget or the device refuses.
pub fn plan(device: &Device, weights: &[&Weight], budget: &Budget) -> Result<Plan> {
    let k = weights.first().map_or(0, |weight| weight.shape()[1]);
    if k == 0 || weights.iter().any(|weight| weight.shape()[1] != k) {
        let shapes: Vec<_> = weights.iter().map(|weight| weight.shape()).collect();
        return Err(Error::invalid(format!("product: matrices {shapes:?} have no rows of one length")));
    }
    let n_outputs = weights.iter().map(|weight| weight.shape()[0]).sum();
    let on = OnDevice::new(device, |_| cpu::Prepared::new(weights), |cuda| cuda::Prepared::new(weights, cuda, budget))?;
    Ok(Plan { k, n_outputs, on })
}

/// Returns the most scratch memory that a run of `n_rows` rows of K numbers takes; the CPU takes none.
pub fn scratch_bytes(device: &Device, n_rows: usize, k: usize) -> usize {
    match device {
        Device::Cpu(_) => 0,
        Device::Cuda(cuda) => cuda::scratch_bytes(cuda, n_rows, k),
    }
}

impl Plan {
    /// Returns O.
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// Computes the outputs of `pass` for its rows.
    ///
    /// # Errors
    /// There are no such outputs, a view is not of whole rows, or the device fails.
    pub fn run(&self, queue: &Queue, pass: Pass<'_>) -> Result<()> {
        let Pass { x, outputs, finish, y } = pass;
        if outputs.start > outputs.end || outputs.end > self.n_outputs {
            return Err(Error::invalid(format!("product: outputs {outputs:?} of {}", self.n_outputs)));
        }
        let n_rows = x.len() / self.k;
        check_len("product: x", x.len(), n_rows * self.k)?;
        check_len("product: y", y.len(), n_rows * outputs.len())?;
        let weight_bytes = match &self.on {
            OnDevice::Cpu(prepared) => prepared.bytes(&outputs, self.k),
            OnDevice::Cuda(prepared) => prepared.bytes(&outputs),
        };
        let bytes = weight_bytes + 4 * (x.len() + y.len());
        let _span = kernel_span!(queue, "product", [n_rows, outputs.len(), self.k], bytes);
        match self.on.with(queue, "product")? {
            Pair::Cpu(prepared, queue) => prepared.run(queue, (outputs, finish), x.host()?, y.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, (outputs, finish), x.cuda()?, y.cuda()?)?,
        }
        Ok(())
    }
}
