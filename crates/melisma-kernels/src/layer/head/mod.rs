//! `head`: the last layer of SNAC's decoder, tanh(Conv₇(Snake(x))) to one channel. x `[B, T, C]`, y `[B, T]`.
//!
//! y\[t\] = tanh(b + Σ_k Σ_c w[c, k] · S(x)[t + k - 3, c]), k = 0 .. 6, with S Snake, x + sin²(αx)/α, α per channel. On
//! the CPU the sum is kept in 16 lanes, lane c mod 16, each growing over k and then c by fused multiply-adds; the lanes
//! are added in halves (i and i + 8, i + 4, i + 2, i + 1), then the bias. x outside of a stream is 0. The output is 3
//! rows behind the input. State: the last 6 inputs. Between devices results agree within 2e-6 · C.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::cuda::MemoryArgument;
use crate::layer::step::{Activations, Arena, Step, Timeline};
use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Queue, Result};

/// Taps of the convolution.
pub const TAPS: usize = 7;

/// The layer with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// C.
    pub n_channels: usize,
    /// `[C]`
    pub alpha: &'a [f32],
    /// `[C, 7]`
    pub weight: &'a [f32],
    /// b.
    pub bias: f32,
    /// Of the output: the input's rate, and its lag plus 3.
    pub timeline: Timeline,
}

/// The layer prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_channels: usize,
    timeline: Timeline,
    state_len: usize,
    on: On,
}

#[derive(Debug)]
enum On {
    Cpu(cpu::Prepared),
    Cuda(Box<cuda::Prepared>),
}

impl Head<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// Weights of another shape, or a device that cannot do it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        check_len("head: alpha", self.alpha.len(), self.n_channels)?;
        check_len("head: weight", self.weight.len(), self.n_channels * TAPS)?;
        let (on, state_len) = match device {
            Device::Cpu(_) => (On::Cpu(cpu::Prepared::new(self)), (TAPS - 1) * self.n_channels),
            Device::Cuda(cuda) => {
                let prepared = cuda::Prepared::new(self, cuda, budget)?;
                let state_len = MemoryArgument::state_len(prepared.memory());
                (On::Cuda(Box::new(prepared)), state_len)
            }
        };
        Ok(Plan { n_channels: self.n_channels, timeline: self.timeline, state_len, on })
    }
}

impl Plan {
    /// Floats of state that a slot needs.
    pub fn state_len(&self) -> usize {
        self.state_len
    }

    /// One step: x `[B, T · rate, C]`, y `[B, T · rate]`.
    ///
    /// # Errors
    /// A view has another length or place than the step asks for, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, arena: Arena<'_>, activations: Activations<'_>) -> Result<()> {
        let (rate, Activations { x, y }) = (self.timeline.rate, activations);
        step.check("head: x", x.len(), rate, self.n_channels)?;
        step.check("head: y", y.len(), rate, 1)?;
        arena.check("head", step.rows, self.state_len)?;
        let _span = kernel_span!(queue, "head", [y.len(), self.n_channels], 4 * (x.len() + y.len()));
        match (&self.on, queue) {
            (On::Cpu(prepared), Queue::Cpu(queue)) => {
                prepared.run(queue, step, self.timeline, arena, (x.host()?, y.host()?))
            }
            (On::Cuda(prepared), Queue::Cuda(queue)) => {
                prepared.run(queue, step, self.timeline, arena, (x.cuda()?, y.cuda()?))
            }
            _ => Err(Error::invalid("head: the queue is of another device than the plan")),
        }
    }
}
