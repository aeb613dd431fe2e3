//! `depthwise`: a per-channel convolution, in steps. x `[B, T, C]`, y `[B, T, C]`.
//!
//! y[t, c] = b\[c\] + Σ_k w[c, k] · x[t + k - K/2, c] for K taps (K odd), added in the order bias,
//! k = 0, 1, ..., fused on the CPU. x outside a stream is 0. The output is K/2 rows behind the
//! input. SNAC's decoder starts with this layer, K = 7. State: the last K - 1 inputs of every
//! channel. Results on different devices agree within 1e-5 of the largest |y|.
//!
//! K = 3, C = 1, w = (1, 10, 100), b = 0: the stream x = (1, 2) becomes (0·1 + 1·10 + 2·100, 1·1 + 2·10) = (210, 21).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::plan::Form;
use crate::layer::step::Timeline;
use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Result};

pub use crate::layer::plan::Plan;

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
    /// Timeline of the output: the input's rate, and its lag plus K/2.
    pub timeline: Timeline,
}

impl Depthwise<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        check_len("depthwise: weight", self.weight.len(), self.n_channels * self.n_taps)?;
        check_len("depthwise: bias", self.bias.len(), self.n_channels)?;
        if self.n_taps.is_multiple_of(2) {
            return Err(Error::invalid(format!("depthwise: {} taps are not odd", self.n_taps)));
        }
        let form = Form {
            name: "depthwise",
            span: |queue, shape, bytes| kernel_span!(queue, "depthwise", shape, bytes),
            n_in: self.n_channels,
            n_out: self.n_channels,
            rate_in: self.timeline.rate,
            n_past: self.n_taps - 1,
            n_weights: 0,
            timeline: self.timeline,
        };
        Plan::new(device, form, |_| Ok(cpu::Prepared::new(self)), |cuda| cuda::Prepared::new(self, cuda, budget))
    }
}
