//! `residual`: SNAC's residual unit, x + Conv₁(Snake(Conv₇(Snake(x)))), with a per-channel Conv₇.
//! x, y `[B, T, C]`.
//!
//! h[t, c] = b₇\[c\] + Σ_k w[c, k] · S(x)[t + (k - 3) d, c], k = 0 .. 6, with dilation d
//! y[t, o] = (x[t, o] + b₁\[o\]) + Σ_i W[o, i] · S'(h)[t, i]
//!
//! S and S' are Snake, x + sin²(αx)/α, each with α per channel. Terms are added in the order
//! written, i ascending, fused on the CPU. x outside a stream is 0. The output is 3 d rows behind
//! the input. State: the last 6 d inputs. Results on different devices agree within 4e-6 · C of the
//! largest term.

pub(crate) mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::plan::Form;
use crate::layer::step::{Rounding, Timeline};
use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Result};

pub use crate::layer::plan::Plan;

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
    /// Timeline of the output: the input's rate, and its lag plus 3 d.
    pub timeline: Timeline,
    /// The rounding allowed on a GPU.
    pub rounding: Rounding,
}

impl Residual<'_> {
    /// Prepares the unit on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
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
        let form = Form {
            name: "residual",
            span: |queue, shape, bytes| kernel_span!(queue, "residual", shape, bytes),
            n_in: n_channels,
            n_out: n_channels,
            rate_in: self.timeline.rate,
            n_past: (TAPS - 1) * self.dilation,
            n_weights: n_channels * n_channels,
            timeline: self.timeline,
        };
        Plan::new(device, form, |_| cpu::Prepared::new(self, budget), |cuda| cuda::Prepared::new(self, cuda, budget))
    }
}
