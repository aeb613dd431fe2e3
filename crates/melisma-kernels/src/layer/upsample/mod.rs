//! `upsample`: Snake, then a transposed convolution that multiplies the rate by s, with 2s taps. x `[B, T, C_in]`,
//! y `[B, T · s, C_out]`.
//!
//! With z = Snake(x) = x + sin²(αx)/α: u[q·s + r, o] = b\[o\] + Σ_i (W[o, r, i, 1] · z[q-1, i]) +
//! Σ_i (W[o, r, i, 0] · z[q, i]) for the phases r = 0 .. s-1, and y\[j\] = u[j + ceil(s/2)]. This
//! is one product with a matrix `[2 C_in, s C_out]`, added in the order bias, z[q-1], z\[q\],
//! channels ascending, fused on the CPU. x outside a stream is 0. A step gives the s outputs u of
//! each of its inputs, so the output is ceil(s/2) rows behind s times the input's lag. State: the
//! last input. The weights of a `ConvTranspose1d` v are W[o, r, i, k] = v[i, o, r + k s]. Results
//! on different devices agree within 4e-6 · C_in of the largest term.

mod cpu;
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

/// A layer with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Upsample<'a> {
    /// C_in.
    pub n_in: usize,
    /// C_out.
    pub n_out: usize,
    /// s.
    pub stride: usize,
    /// `[C_in]`
    pub alpha: &'a [f32],
    /// `[C_out, s, C_in, 2]`
    pub weight: &'a [f32],
    /// `[C_out]`
    pub bias: &'a [f32],
    /// Timeline of the output: s times the input's rate, s times its lag plus ceil(s/2).
    pub timeline: Timeline,
    /// The rounding allowed on a GPU.
    pub rounding: Rounding,
}

impl Upsample<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let Upsample { n_in, n_out, stride, timeline, .. } = *self;
        check_len("upsample: alpha", self.alpha.len(), n_in)?;
        check_len("upsample: weight", self.weight.len(), n_out * stride * n_in * 2)?;
        check_len("upsample: bias", self.bias.len(), n_out)?;
        if stride == 0 || !timeline.rate.is_multiple_of(stride) {
            return Err(Error::invalid(format!("upsample: the rate {} is not a multiple of {stride}", timeline.rate)));
        }
        let form = Form {
            name: "upsample",
            span: |queue, shape, bytes| kernel_span!(queue, "upsample", shape, bytes),
            n_in,
            n_out,
            rate_in: timeline.rate / stride,
            n_past: 1,
            n_weights: 2 * n_in * stride * n_out,
            timeline,
        };
        Plan::new(device, form, |_| cpu::Prepared::new(self, budget), |cuda| cuda::Prepared::new(self, cuda, budget))
    }
}
