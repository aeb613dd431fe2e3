//! `conv`: a convolution over images. x `[B, C, H, W]`, w `[O, C, M, N]`, y `[B, O, H', W']`.
//!
//! y[o, i, j] = f(b\[o\] + Σ_c Σ_m Σ_n w[o, c, m, n] · x[c, i·s + m·d - p, j·s' + n·d' - p']),
//! added in that order with fused multiply-adds. x outside the image is 0, and f is the identity or
//! max(0, sum), where a NaN stays NaN. With padding p before and q after an axis of length L, H' =
//! ⌊(L + p + q - (M - 1)·d - 1) / s⌋ + 1, as in ONNX's Conv. A signal is an image of one row. For a
//! given instruction set, the bits do not depend on the number of threads. CPU only.
//!
//! C = O = 1, w = (1, 10), stride 2, no padding: the row x = (1, 2, 3, 4) becomes (1·1 + 2·10, 3·1 + 4·10) = (21, 43).

mod block;
mod cpu;
mod narrow;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod tile;

use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Queue, Result, View, ViewMut};

/// A convolution with its weights. Pairs are rows, then columns.
#[derive(Debug, Clone, Copy)]
pub struct Conv<'a> {
    /// C.
    pub n_in: usize,
    /// O.
    pub n_out: usize,
    /// M and N.
    pub kernel: [usize; 2],
    /// The distance between outputs.
    pub strides: [usize; 2],
    /// The distance between taps.
    pub dilations: [usize; 2],
    /// Zeros before each axis.
    pub before: [usize; 2],
    /// Zeros after each axis.
    pub after: [usize; 2],
    /// `[O, C, M, N]`
    pub weight: &'a [f32],
    /// `[O]`
    pub bias: &'a [f32],
    /// f.
    pub curve: Curve,
}

/// The function applied to a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// No change.
    Identity,
    /// The greater of 0 and the sum.
    Relu,
}

/// A prepared convolution, for images of any size.
#[derive(Debug)]
pub struct Plan {
    n_in: usize,
    n_out: usize,
    taps: [Axis; 2],
    prepared: cpu::Prepared,
}

/// The outputs and taps along one axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    n_taps: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
}

impl Axis {
    /// Returns the number of outputs for `len` inputs; `None` if the taps do not fit.
    fn n_outputs(self, len: usize) -> Option<usize> {
        let reach = (self.n_taps - 1).checked_mul(self.dilation)?;
        let padded = len.checked_add(self.before)?.checked_add(self.after)?;
        Some(padded.checked_sub(reach)?.checked_sub(1)? / self.stride + 1)
    }
}

impl Conv<'_> {
    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// Wrong weight shapes, strides or dilations of 0, or a device other than a CPU.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let Device::Cpu(cpu) = device else {
            return Err(Error::unsupported("conv: not implemented for GPUs"));
        };
        let lens = [self.n_out, self.n_in, self.kernel[0], self.kernel[1]];
        let len = lens.into_iter().try_fold(1usize, usize::checked_mul);
        if lens.contains(&0) || self.strides.contains(&0) || self.dilations.contains(&0) {
            return Err(Error::invalid(format!(
                "conv: weights {lens:?}, strides {:?} and dilations {:?} have a 0",
                self.strides, self.dilations
            )));
        }
        check_len("conv: weight", self.weight.len(), len.unwrap_or(usize::MAX))?;
        check_len("conv: bias", self.bias.len(), self.n_out)?;
        let axis = |at: usize| Axis {
            n_taps: self.kernel[at],
            stride: self.strides[at],
            dilation: self.dilations[at],
            before: self.before[at],
            after: self.after[at],
        };
        let taps = [axis(0), axis(1)];
        let prepared = cpu::Prepared::new(self, taps, *cpu, budget)?;
        Ok(Plan { n_in: self.n_in, n_out: self.n_out, taps, prepared })
    }
}

impl Plan {
    /// Returns the rows and columns of the output for an image of `size`.
    ///
    /// # Errors
    /// The image with its padding is smaller than the taps.
    pub fn output_size(&self, size: [usize; 2]) -> Result<[usize; 2]> {
        match [0, 1].map(|at| self.taps[at].n_outputs(size[at])) {
            [Some(rows), Some(columns)] => Ok([rows, columns]),
            _ => {
                let reach = self.taps.map(|axis| (axis.n_taps - 1).saturating_mul(axis.dilation).saturating_add(1));
                let padding = self.taps.map(|axis| axis.before.saturating_add(axis.after));
                Err(Error::invalid(format!(
                    "conv: an image of {} x {} with {} x {} of padding is too small for taps over {} x {}",
                    size[0], size[1], padding[0], padding[1], reach[0], reach[1]
                )))
            }
        }
    }

    /// Returns C and O.
    pub fn channels(&self) -> [usize; 2] {
        [self.n_in, self.n_out]
    }

    /// Runs it on images of `size`: x `[B, C, H, W]`, y `[B, O, H', W']`.
    ///
    /// # Errors
    /// A view has the wrong length or place, or there is not enough scratch.
    pub fn run(&self, queue: &Queue, size: [usize; 2], x: View<'_, f32>, y: ViewMut<'_, f32>) -> Result<()> {
        let output = self.output_size(size)?;
        let area = |n: usize, [rows, columns]: [usize; 2]| n.checked_mul(rows)?.checked_mul(columns);
        let (Some(image), Some(result)) = (area(self.n_in, size), area(self.n_out, output)) else {
            return Err(Error::invalid(format!("conv: an image of {} x {} is too large", size[0], size[1])));
        };
        let n_images = x.len().checked_div(image).unwrap_or_else(|| y.len() / result.max(1));
        check_len("conv: x", x.len(), n_images * image)?;
        check_len("conv: y", y.len(), n_images * result)?;
        let _span = kernel_span!(queue, "conv", [n_images, size[0], size[1]], 4 * (x.len() + y.len()));
        let Queue::Cpu(queue) = queue else {
            return Err(Error::invalid("conv: the queue is of another device than the plan"));
        };
        self.prepared.run(queue, cpu::Images { size, output, x: x.host()?, y: y.host()? })
    }
}
