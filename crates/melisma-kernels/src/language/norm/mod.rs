//! `norm`: root mean square norm. x, y `[R, C]`.
//!
//! y[r, c] = x[r, c] / √(Σ x[r, c]² / C + ε) · w\[c\]. The sum has the order of `lanes`, so every
//! instruction set gives the same bits; on a GPU it has an order that C alone decides. Within 1e-6
//! of the exact value, relative to the larger of it and 1. A NaN makes its row NaN. Zhang and
//! Sennrich 2019.
//!
//! w = (1, 2), ε = 0: x = (3, 3) becomes (1, 2).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::weight::Weight;
use crate::language::weight::with_values;
use crate::matmul;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, View, ViewMut};

/// A norm with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// w `[1, C]`
    pub weight: &'a Weight,
    /// ε.
    pub epsilon: f32,
}

/// A norm prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_channels: usize,
    on: OnDevice<cpu::Prepared, cuda::Prepared>,
}

impl Norm<'_> {
    /// Prepares the norm on `device`.
    ///
    /// # Errors
    /// The weights are not one row of host memory, or the budget or the device refuses.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let [n_rows, n_channels] = self.weight.shape();
        if n_rows != 1 || n_channels == 0 {
            return Err(Error::invalid(format!("norm: weights [{n_rows}, {n_channels}] are not one row")));
        }
        self.weight.check_host("norm")?;
        let on = OnDevice::new(
            device,
            |cpu| Ok(cpu::Prepared::new(self, cpu.isa)),
            |cuda| cuda::Prepared::new(self, cuda, budget),
        )?;
        Ok(Plan { n_channels, on })
    }

    /// Returns the weights as floats.
    fn floats(&self) -> Vec<f32> {
        let mut floats = vec![0.0; self.weight.shape()[1]];
        with_values!(self.weight, values => matmul::load(values, &mut floats));
        floats
    }
}

impl Plan {
    /// Writes the norm of each row of `x` (R, C) to `y` (R, C).
    ///
    /// # Errors
    /// A view is not of whole rows or differs from the other, or the device fails.
    pub fn run(&self, queue: &Queue, x: View<'_, f32>, y: ViewMut<'_, f32>) -> Result<()> {
        check_len("norm: x", x.len(), x.len() / self.n_channels * self.n_channels)?;
        check_len("norm: y", y.len(), x.len())?;
        let _span = kernel_span!(queue, "norm", [x.len() / self.n_channels, self.n_channels], 8 * x.len());
        match self.on.with(queue, "norm")? {
            Pair::Cpu(prepared, queue) => prepared.run(queue, x.host()?, y.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, x.cuda()?, y.cuda()?)?,
        }
        Ok(())
    }
}
