//! `residual`: SNAC's residual unit, x + Conv₁(Snake(Conv₇(Snake(x)))), Conv₇ on each channel alone. x, y `[B, T, C]`.
//!
//! h[t, c] = b₇\[c\] + Σ_k w[c, k] · S(x)[t + (k - 3) d, c], k = 0 .. 6, with dilation d
//! y[t, o] = (x[t, o] + b₁\[o\]) + Σ_i W[o, i] · S'(h)[t, i]
//!
//! S and S' are Snake, x + sin²(αx)/α, each with α per channel. Sums grow in the order written, i rising, fused on the
//! CPU. x outside of a stream is 0. The output is 3 d rows behind the input. State: the last 6 d inputs. Between
//! devices results agree within 4e-6 · C of the largest term.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::cuda::MemoryArgument;
use crate::layer::step::{Activations, Arena, Rounding, Step, Timeline};
use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Queue, Result};

/// Taps of the wide convolution.
pub const TAPS: usize = 7;

/// A residual unit with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Residual<'a> {
    /// C.
    pub n_channels: usize,
    /// d.
    pub dilation: usize,
    /// α of S, `[C]`.
    pub alpha: &'a [f32],
    /// w `[C, 7]`
    pub wide: &'a [f32],
    /// b₇ `[C]`
    pub wide_bias: &'a [f32],
    /// α of S', `[C]`.
    pub mix_alpha: &'a [f32],
    /// W `[C, C]`
    pub mix: &'a [f32],
    /// b₁ `[C]`
    pub mix_bias: &'a [f32],
    /// Of the output: the input's rate, and its lag plus 3 d.
    pub timeline: Timeline,
    /// How a GPU may round.
    pub rounding: Rounding,
}

/// A residual unit prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_channels: usize,
    timeline: Timeline,
    state_len: usize,
    on: On,
}

#[derive(Debug)]
enum On {
    Cpu(Box<cpu::Prepared>),
    Cuda(Box<cuda::Prepared>),
}

impl Residual<'_> {
    /// Prepares the unit on `device`.
    ///
    /// # Errors
    /// Weights of another shape, or a device that cannot do it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let n_channels = self.n_channels;
        check_len("residual: alpha", self.alpha.len(), n_channels)?;
        check_len("residual: mix_alpha", self.mix_alpha.len(), n_channels)?;
        check_len("residual: wide", self.wide.len(), n_channels * TAPS)?;
        check_len("residual: wide_bias", self.wide_bias.len(), n_channels)?;
        check_len("residual: mix", self.mix.len(), n_channels * n_channels)?;
        check_len("residual: mix_bias", self.mix_bias.len(), n_channels)?;
        if self.dilation == 0 {
            return Err(Error::invalid("residual: the dilation is 0"));
        }
        let (on, state_len) = match device {
            Device::Cpu(_) => {
                (On::Cpu(Box::new(cpu::Prepared::new(self, budget)?)), (TAPS - 1) * self.dilation * n_channels)
            }
            Device::Cuda(cuda) => {
                let prepared = cuda::Prepared::new(self, cuda, budget)?;
                let state_len = MemoryArgument::state_len(prepared.memory());
                (On::Cuda(Box::new(prepared)), state_len)
            }
        };
        Ok(Plan { n_channels, timeline: self.timeline, state_len, on })
    }
}

impl Plan {
    /// Floats of state that a slot needs.
    pub fn state_len(&self) -> usize {
        self.state_len
    }

    /// One step: x and y `[B, T · rate, C]`.
    ///
    /// # Errors
    /// A view has another length or place than the step asks for, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, arena: Arena<'_>, activations: Activations<'_>) -> Result<()> {
        let (rate, Activations { x, y }) = (self.timeline.rate, activations);
        step.check("residual: x", x.len(), rate, self.n_channels)?;
        step.check("residual: y", y.len(), rate, self.n_channels)?;
        arena.check("residual", step.rows, self.state_len)?;
        let shape = [step.n_columns(rate), self.n_channels];
        let _span = kernel_span!(queue, "residual", shape, 4 * (x.len() + y.len() + self.n_channels * self.n_channels));
        match (&self.on, queue) {
            (On::Cpu(prepared), Queue::Cpu(queue)) => {
                prepared.run(queue, step, self.timeline, arena, (x.host()?, y.host()?))
            }
            (On::Cuda(prepared), Queue::Cuda(queue)) => {
                prepared.run(queue, step, self.timeline, arena, (x.cuda()?, y.cuda()?))
            }
            _ => Err(Error::invalid("residual: the queue is of another device than the plan")),
        }
    }
}
