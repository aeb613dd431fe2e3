//! Transposed convolution that multiplies the rate by `s`, with `2s` taps.
//!
//! Output `q s + r` of the uncropped result is `Σ x[q] w[r] + x[q-1] w[r+s]` over input channels: `s` convolutions of
//! two taps, one for each phase `r`. The first `ceil(s/2)` outputs are cropped, and at the end as many are kept as make
//! the output exactly `s` times as long as the input.

use super::layer::{Flow, accumulate};
use super::plane::Plane;
use crate::Result;
use crate::snac::weights::Weights;

/// A transposed convolution with its weights.
#[derive(Debug)]
pub struct ConvTranspose1d {
    n_in: usize,
    n_out: usize,
    stride: usize,
    /// `[n_out, stride, n_in, 2]`: for each phase the taps on `x[q]` and `x[q-1]`.
    phases: Vec<f32>,
    /// `[n_out]`
    bias: Vec<f32>,
}

/// The last input, and how much of the start is still to be cropped.
#[derive(Debug, Clone)]
pub struct Overlap {
    previous: Plane,
    crop: usize,
}

impl Overlap {
    /// Returns the number of values held.
    pub fn n_values(&self) -> usize {
        self.previous.data().len()
    }
}

impl ConvTranspose1d {
    pub(in crate::snac) fn load(
        weights: &mut Weights<'_>,
        name: &str,
        [n_in, n_out]: [usize; 2],
        stride: usize,
    ) -> Result<Self> {
        let weight = weights.convolution(name, [n_in, n_out, 2 * stride])?;
        let bias = weights.tensor(&format!("{name}.bias"), &[n_out])?;
        let mut phases = Vec::with_capacity(weight.len());
        for channel in 0..n_out {
            for phase in 0..stride {
                for input in 0..n_in {
                    let taps = (input * n_out + channel) * 2 * stride + phase;
                    phases.extend([weight[taps], weight[taps + stride]]);
                }
            }
        }
        Ok(Self { n_in, n_out, stride, phases, bias })
    }

    /// Returns the input and output channels.
    pub fn channels(&self) -> [usize; 2] {
        [self.n_in, self.n_out]
    }

    /// Returns the factor of the rate.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the folded weights, `[n_out, stride, n_in, 2]`.
    pub fn phases(&self) -> &[f32] {
        &self.phases
    }

    /// Returns the bias, `[n_out]`.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// Returns the state before the first input.
    pub fn start(&self) -> Overlap {
        Overlap { previous: Plane::zeros(self.n_in, 1), crop: self.stride.div_ceil(2) }
    }

    /// Takes `[n_in, T]`, gives the outputs that became final.
    pub fn push(&self, overlap: &mut Overlap, x: &Plane, flow: Flow) -> Plane {
        let mut seen = overlap.previous.then(x);
        if flow == Flow::Last {
            seen = seen.then(&Plane::zeros(self.n_in, 1));
        }
        let y = self.valid(&seen);
        overlap.previous = seen.slice(seen.len() - 1, seen.len());
        let start = overlap.crop.min(y.len());
        let end = match flow {
            Flow::More => y.len(),
            Flow::Last => y.len() - (self.stride - self.stride.div_ceil(2)),
        };
        overlap.crop -= start;
        y.slice(start, end.max(start))
    }

    /// Turns `[n_in, T + 1]` into `[n_out, T s]`; the first input is only a neighbour.
    fn valid(&self, x: &Plane) -> Plane {
        let len = x.len() - 1;
        let mut y = Plane::zeros(self.n_out, len * self.stride);
        let inputs: Vec<&[f32]> =
            (0..self.n_in).flat_map(|channel| [&x.row(channel)[1..], &x.row(channel)[..len]]).collect();
        let mut sums = vec![0.0; len];
        for (index, weights) in self.phases.chunks_exact(inputs.len()).enumerate() {
            let (channel, phase) = (index / self.stride, index % self.stride);
            sums.fill(self.bias[channel]);
            accumulate(&mut sums, weights, &inputs);
            for (y, sum) in y.row_mut(channel).iter_mut().skip(phase).step_by(self.stride).zip(&sums) {
                *y = *sum;
            }
        }
        y
    }
}
