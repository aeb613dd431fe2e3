//! `entry`: the first layer of SNAC's encoder, a convolution of sound to C channels. x `[B, T]`, y `[B, T, C]`.
//!
//! y[t, c] = b\[c\] + Σ_k w[c, k] · x[t + k - 3], k = 0 .. 6, added in the order bias, k = 0, 1,
//! ... by fused multiply-adds, so all devices give the same bits. x outside a stream is 0. The
//! output is 3 rows behind the input. State: the last 6 inputs. A NaN reaches the 7 rows around it.
//!
//! C = 1, w = (0, 0, 1, 10, 100, 0, 0), b = 0: the stream x = (1, 2) becomes
//! (1·10 + 2·100, 1·1 + 2·10) = (210, 21).

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

/// Taps of the convolution.
pub const TAPS: usize = 7;

/// The layer with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// C.
    pub n_channels: usize,
    /// `[C, 7]`
    pub weight: &'a [f32],
    /// `[C]`
    pub bias: &'a [f32],
    /// Timeline of the output: the input's rate, and its lag plus 3.
    pub timeline: Timeline,
}

impl Entry<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        if self.n_channels == 0 {
            return Err(Error::invalid("entry: 0 channels, need at least 1"));
        }
        check_len("entry: weight", self.weight.len(), self.n_channels * TAPS)?;
        check_len("entry: bias", self.bias.len(), self.n_channels)?;
        let form = Form {
            name: "entry",
            span: |queue, shape, bytes| kernel_span!(queue, "entry", shape, bytes),
            n_in: 1,
            n_out: self.n_channels,
            rate_in: self.timeline.rate,
            n_past: TAPS - 1,
            n_weights: 0,
            timeline: self.timeline,
        };
        Plan::new(device, form, |_| Ok(cpu::Prepared::new(self)), |cuda| cuda::Prepared::new(self, cuda, budget))
    }
}
