//! `gated`: the gated unit. x `[R, 2, I]`, y `[R, I]`.
//!
//! y = g / (1 + e^-g) · u, where g is the first half of a row of x and u the second. Every
//! device gives the same bits. NaN stays NaN. Shazeer 2020, SwiGLU.
//!
//! I = 1: x = (0, 5) becomes 0.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::device::cuda::Function;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Device, Error, Isa, Queue, Result, View, ViewMut};

/// A gated unit prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_inner: usize,
    on: OnDevice<Isa, Function>,
}

/// Prepares the gated unit of `n_inner` (I) channels on `device`.
///
/// # Errors
/// No channels, or the device has no such kernel.
pub fn plan(device: &Device, n_inner: usize) -> Result<Plan> {
    if n_inner == 0 {
        return Err(Error::invalid("gated: no channels"));
    }
    Ok(Plan { n_inner, on: OnDevice::new(device, |cpu| Ok(cpu.isa), cuda::prepare)? })
}

impl Plan {
    /// Computes `y` (R, I) from `x` (R, 2, I).
    ///
    /// # Errors
    /// A view is not of whole rows, or the device fails.
    pub fn run(&self, queue: &Queue, x: View<'_, f32>, y: ViewMut<'_, f32>) -> Result<()> {
        let n_rows = y.len() / self.n_inner;
        check_len("gated: y", y.len(), n_rows * self.n_inner)?;
        check_len("gated: x", x.len(), 2 * y.len())?;
        let _span = kernel_span!(queue, "gated", [n_rows, self.n_inner], 12 * y.len());
        match self.on.with(queue, "gated")? {
            Pair::Cpu(isa, queue) => cpu::run(queue, (*isa, self.n_inner), x.host()?, y.host()?),
            Pair::Cuda(function, queue) => cuda::run(queue, (function, self.n_inner), x.cuda()?, y.cuda()?)?,
        }
        Ok(())
    }
}
