//! `downsample`: Snake, then a convolution that divides the rate by s, with 2s taps and a padding
//! of ceil(s/2). x `[B, T · rate · s, C_in]`, y `[B, T · rate, C_out]`.
//!
//! With z = Snake(x) = x + sin²(αx)/α, for k = 0 .. 2s-1:
//! y[j, o] = b\[o\] + Σ_k Σ_i W[o, i, k] · z[j·s - ceil(s/2) + k, i].
//!
//! This is one product with a matrix `[2s C_in, C_out]`, added in the order bias, k ascending,
//! channels ascending, fused on the CPU. x outside a stream is 0, and N·s inputs give N outputs.
//! [`Timeline::downsampled`] gives the output's lag. State: the s to 2s-1 last inputs that later
//! outputs need. W is the weight of a `Conv1d`, unchanged. SNAC's encoder ends each block with this
//! layer. Results on different devices agree within 4e-6 · 2s · C_in of the largest term.
//!
//! s = 2, C_in = C_out = 1, α = 0 (z = x), W = (1, 10, 100, 1000), b = 0: the stream
//! x = (1, 2, 3, 4) becomes (0·1 + 1·10 + 2·100 + 3·1000, 2·1 + 3·10 + 4·100 + 0·1000) = (3210, 432).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::plan::Form;
use crate::layer::step::Timeline;
use crate::layer::strided::Strided;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Result};

pub use crate::layer::plan::Plan;

/// A layer with its weights, `[C_out, C_in, 2s]`.
#[derive(Debug, Clone, Copy)]
pub struct Downsample<'a> {
    /// The weights; its timeline is [`Timeline::downsampled`] of `from`.
    pub layer: Strided<'a>,
    /// Timeline of the input.
    pub from: Timeline,
}

impl Downsample<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, the timelines do not match, or the device does not support
    /// it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let (Strided { n_in, n_out, stride, timeline, .. }, from) = (self.layer, self.from);
        self.layer.check("downsample", from.rate)?;
        let expected = from.downsampled(stride);
        if timeline != expected {
            return Err(Error::invalid(format!(
                "downsample: the output has {timeline:?}, {from:?} and the stride {stride} give {expected:?}"
            )));
        }
        let form = Form {
            name: "downsample",
            span: |queue, shape, bytes| kernel_span!(queue, "downsample", shape, bytes),
            n_in,
            n_out,
            rate_in: from.rate,
            n_past: n_past(from, stride),
            n_weights: 2 * stride * n_in * n_out,
            timeline,
        };
        Plan::new(
            device,
            form,
            |_| cpu::Prepared::new(&self.layer, budget),
            |cuda| cuda::Prepared::new(&self.layer, cuda, budget),
        )
    }
}

/// Returns the number of inputs that the layer remembers: output j of a step then sees the rows j·s
/// .. j·s + 2s of memory and step joined.
pub(crate) fn n_past(from: Timeline, stride: usize) -> usize {
    from.downsampled(stride).lag * stride + stride.div_ceil(2) - from.lag
}
