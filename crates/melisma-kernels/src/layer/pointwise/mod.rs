//! `pointwise`: a matrix product at every time step. x `[B, T, C_in]`, W `[C_out, C_in]`, y `[B, T,
//! C_out]`.
//!
//! | mode | y[t, o] | `with` |
//! |---|---|---|
//! | [`Mode::Plain`] | b\[o\] + Σ_i W[o, i] · x[t, i] | nothing |
//! | [`Mode::Add`] | s[t, o] + Σ_i W[o, i] · x[t, i] | the skip s `[B, T, C_out]` |
//! | [`Mode::Noise`] | x[t, o] + Σ_i W[o, i] · (n\[t\] · x[t, i]), and exactly x[t, o] where n\[t\] = 0 | the deviates n `[B, T]` |
//!
//! The sum starts from its first term and adds i = 0, 1, ... in order, fused on the CPU. `Plain`
//! and `Add` write 0 where the timeline has no output; `Noise` has C_in = C_out and no bias
//! (NoiseBlock of SNAC). No state. Results on different devices agree within 2e-6 · C_in of the
//! largest term.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::step::{Activations, Rounding, Step, Timeline};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, View};

/// The term that is added to the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The bias.
    Plain,
    /// A skip connection.
    Add,
    /// The input itself; the product is scaled by one deviate per time step.
    Noise,
}

/// A layer with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Pointwise<'a> {
    /// C_in.
    pub n_in: usize,
    /// C_out.
    pub n_out: usize,
    /// `[C_out, C_in]`
    pub weight: &'a [f32],
    /// `[C_out]`; `None` means zeros. Only in [`Mode::Plain`].
    pub bias: Option<&'a [f32]>,
    /// The added term.
    pub mode: Mode,
    /// Timeline of input and output.
    pub timeline: Timeline,
    /// The rounding allowed on a GPU.
    pub rounding: Rounding,
}

/// A layer prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_in: usize,
    n_out: usize,
    mode: Mode,
    timeline: Timeline,
    on: OnDevice<cpu::Prepared, Box<cuda::Prepared>>,
}

impl Pointwise<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        check_len("pointwise: weight", self.weight.len(), self.n_in * self.n_out)?;
        if let Some(bias) = self.bias {
            check_len("pointwise: bias", bias.len(), self.n_out)?;
        }
        if self.bias.is_some() && self.mode != Mode::Plain {
            return Err(Error::invalid(format!("pointwise: mode {:?} takes no bias", self.mode)));
        }
        if self.mode == Mode::Noise && self.n_in != self.n_out {
            return Err(Error::invalid(format!(
                "pointwise: noise cannot map {} to {} channels",
                self.n_in, self.n_out
            )));
        }
        let on = OnDevice::new(
            device,
            |_| cpu::Prepared::new(self, budget),
            |cuda| cuda::Prepared::new(self, cuda, budget).map(Box::new),
        )?;
        Ok(Plan { n_in: self.n_in, n_out: self.n_out, mode: self.mode, timeline: self.timeline, on })
    }
}

impl Plan {
    /// Runs one step: x `[B, T · rate, C_in]`, y `[B, T · rate, C_out]`, `with` as listed for the mode.
    ///
    /// # Errors
    /// A view's length or place does not match the step, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, with: View<'_, f32>, activations: Activations<'_>) -> Result<()> {
        let (rate, Activations { x, y }) = (self.timeline.rate, activations);
        step.check("pointwise: x", x.len(), rate, self.n_in)?;
        step.check("pointwise: y", y.len(), rate, self.n_out)?;
        let per_column = match self.mode {
            Mode::Plain => 0,
            Mode::Add => self.n_out,
            Mode::Noise => 1,
        };
        step.check("pointwise: with", with.len(), rate, per_column)?;
        let shape = [step.n_columns(rate), self.n_in, self.n_out];
        let _span = kernel_span!(queue, "pointwise", shape, 4 * (x.len() + y.len() + self.n_in * self.n_out));
        match self.on.with(queue, "pointwise")? {
            Pair::Cpu(prepared, queue) => {
                prepared.run(queue, step, self.timeline, with.host()?, (x.host()?, y.host()?))
            }
            Pair::Cuda(prepared, queue) => prepared.run(queue, step, self.timeline, with, (x.cuda()?, y.cuda()?)),
        }
    }
}
