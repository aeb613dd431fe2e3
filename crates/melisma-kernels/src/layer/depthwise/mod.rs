//! `depthwise`: a convolution of each channel alone, in steps. x `[B, T, C]`, y `[B, T, C]`.
//!
//! y[t, c] = b\[c\] + Σ_k w[c, k] · x[t + k - K/2, c] for K taps (K odd), added in the order bias, k = 0, 1, ..., fused on
//! the CPU. x outside of a stream is 0. The output is K/2 rows behind the input: the entry of SNAC's decoder, K = 7.
//! State: the last K - 1 inputs of every channel. Between devices results agree within 1e-5 of the largest |y|.
//!
//! K = 3, C = 1, w = (1, 10, 100), b = 0: the stream x = (1, 2) becomes (0·1 + 1·10 + 2·100, 1·1 + 2·10) = (210, 21).

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

/// A depthwise convolution with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Depthwise<'a> {
    /// C.
    pub n_channels: usize,
    /// K, odd.
    pub n_taps: usize,
    /// `[C, K]`
    pub weight: &'a [f32],
    /// `[C]`
    pub bias: &'a [f32],
    /// Of the output: the input's rate, and its lag plus K/2.
    pub timeline: Timeline,
}

/// A depthwise convolution prepared for one device.
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

impl Depthwise<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// Weights of another shape, or a device that cannot do it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        check_len("depthwise: weight", self.weight.len(), self.n_channels * self.n_taps)?;
        check_len("depthwise: bias", self.bias.len(), self.n_channels)?;
        if self.n_taps.is_multiple_of(2) {
            return Err(Error::invalid(format!("depthwise: {} taps are not odd", self.n_taps)));
        }
        let (on, state_len) = match device {
            Device::Cpu(_) => (On::Cpu(cpu::Prepared::new(self)), (self.n_taps - 1) * self.n_channels),
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

    /// One step: x and y `[B, T · rate, C]`.
    ///
    /// # Errors
    /// A view has another length or place than the step asks for, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, arena: Arena<'_>, activations: Activations<'_>) -> Result<()> {
        let Activations { x, y } = activations;
        step.check("depthwise: x", x.len(), self.timeline.rate, self.n_channels)?;
        step.check("depthwise: y", y.len(), self.timeline.rate, self.n_channels)?;
        arena.check("depthwise", step.rows, self.state_len)?;
        let _span = kernel_span!(queue, "depthwise", [x.len()], 8 * x.len());
        match (&self.on, queue) {
            (On::Cpu(prepared), Queue::Cpu(queue)) => {
                prepared.run(queue, step, self.timeline, arena, (x.host()?, y.host()?))
            }
            (On::Cuda(prepared), Queue::Cuda(queue)) => {
                prepared.run(queue, step, self.timeline, arena, (x.cuda()?, y.cuda()?))
            }
            _ => Err(Error::invalid("depthwise: the queue is of another device than the plan")),
        }
    }
}
