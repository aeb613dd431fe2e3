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
use crate::layer::strided::Strided;
use crate::queue::kernel_span;
use crate::{Budget, Device, Result};

pub use crate::layer::plan::Plan;

/// A layer with its weights, `[C_out, s, C_in, 2]`. The output has s times the input's rate, and s times its lag plus
/// ceil(s/2).
#[derive(Debug, Clone, Copy)]
pub struct Upsample<'a>(pub Strided<'a>);

impl Upsample<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The weights have a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let Strided { n_in, n_out, stride, timeline, .. } = self.0;
        self.0.check("upsample", timeline.rate)?;
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
        Plan::new(
            device,
            form,
            |_| cpu::Prepared::new(&self.0, budget),
            |cuda| cuda::Prepared::new(&self.0, cuda, budget),
        )
    }
}
