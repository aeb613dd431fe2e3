//! `head`: the last layer of SNAC's decoder, tanh(Conv₇(Snake(x))) to one channel. x `[B, T, C]`, y `[B, T]`.
//!
//! y\[t\] = tanh(b + Σ_k Σ_c w[c, k] · S(x)[t + k - 3, c]), k = 0 .. 6, where S is Snake, x +
//! sin²(αx)/α, α per channel. On the CPU the sum is held in 16 lanes, lane c mod 16; each lane adds
//! over k and then c by fused multiply-adds. The lanes are added in halves (i and i + 8, i + 4, i +
//! 2, i + 1), then the bias. x outside a stream is 0. The output is 3 rows behind the input. State:
//! the last 6 inputs. Results on different devices agree within 2e-6 · C.

pub(crate) mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::plan::Form;
use crate::layer::step::Timeline;
use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Result};

pub use crate::layer::plan::Plan;

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
    /// Timeline of the output: the input's rate, and its lag plus 3.
    pub timeline: Timeline,
}

impl Head<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        check_len("head: alpha", self.alpha.len(), self.n_channels)?;
        check_len("head: weight", self.weight.len(), self.n_channels * TAPS)?;
        let form = Form {
            name: "head",
            span: |queue, shape, bytes| kernel_span!(queue, "head", shape, bytes),
            n_in: self.n_channels,
            n_out: 1,
            rate_in: self.timeline.rate,
            n_past: TAPS - 1,
            n_weights: 0,
            timeline: self.timeline,
        };
        Plan::new(device, form, |_| Ok(cpu::Prepared::new(self)), |cuda| cuda::Prepared::new(self, cuda, budget))
    }
}
