//! `norm`: layer norm over channels at each time step. x, y `[B, T, C]`.
//!
//! y[t, c] = g\[c\] · (x[t, c] - m) / √(v + 1e-5) + b\[c\], with mean m and variance v of row t
//! over all C channels, summed in f64 on the CPU, c ascending. No state, no timeline: rows outside
//! a stream are computed like any other, and nothing reads them. Results on different devices agree
//! within 1e-5.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::step::{Activations, Step};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Queue, Result};

/// Added to the variance.
pub const EPSILON: f64 = 1e-5;

/// A layer norm with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// C.
    pub n_channels: usize,
    /// g `[C]`
    pub weight: &'a [f32],
    /// b `[C]`
    pub bias: &'a [f32],
    /// Rows per latent.
    pub rate: usize,
}

/// A layer norm prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_channels: usize,
    rate: usize,
    on: OnDevice<cpu::Prepared, Box<cuda::Prepared>>,
}

impl Norm<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        check_len("norm: weight", self.weight.len(), self.n_channels)?;
        check_len("norm: bias", self.bias.len(), self.n_channels)?;
        let on = OnDevice::new(
            device,
            |_| Ok(cpu::Prepared::new(self)),
            |cuda| cuda::Prepared::new(self, cuda, budget).map(Box::new),
        )?;
        Ok(Plan { n_channels: self.n_channels, rate: self.rate, on })
    }
}

impl Plan {
    /// Runs one step: x and y `[B, T · rate, C]`.
    ///
    /// # Errors
    /// A view's length or place does not match the step, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, activations: Activations<'_>) -> Result<()> {
        let Activations { x, y } = activations;
        step.check("norm: x", x.len(), self.rate, self.n_channels)?;
        step.check("norm: y", y.len(), self.rate, self.n_channels)?;
        let _span = kernel_span!(queue, "norm", [x.len()], 8 * x.len());
        match self.on.with(queue, "norm")? {
            Pair::Cpu(prepared, _) => prepared.run(x.host()?, y.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, x.cuda()?, y.cuda()?)?,
        }
        Ok(())
    }
}
