//! Convolution over time.

use super::layer::{Flow, accumulate};
use super::plane::Plane;
use crate::Result;
use crate::snac::weights::Weights;

/// The shape of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Input channels.
    pub n_in: usize,
    /// Output channels.
    pub n_out: usize,
    /// Taps.
    pub kernel: usize,
    /// Input steps per output.
    pub stride: usize,
    /// Input steps per tap.
    pub dilation: usize,
    /// Zeros before the first and after the last input.
    pub padding: usize,
    /// Groups of channels that do not mix.
    pub groups: usize,
}

impl Shape {
    /// Returns `kernel` taps of dilation 1 with as many outputs as inputs; every output sees every
    /// channel.
    pub fn same(n_in: usize, n_out: usize, kernel: usize) -> Self {
        Self { n_in, n_out, kernel, stride: 1, dilation: 1, padding: kernel / 2, groups: 1 }
    }
}

/// A convolution with its weights.
#[derive(Debug)]
pub struct Conv1d {
    shape: Shape,
    /// `[n_out, n_in / groups, kernel]`
    weight: Vec<f32>,
    /// `[n_out]`
    bias: Option<Vec<f32>>,
}

/// The inputs that later outputs depend on.
#[derive(Debug, Clone)]
pub struct Halo(Plane);

impl Halo {
    /// Returns the number of values held.
    pub fn n_values(&self) -> usize {
        self.0.data().len()
    }
}

impl Conv1d {
    pub(in crate::snac) fn load(weights: &mut Weights<'_>, name: &str, shape: Shape) -> Result<Self> {
        let weight = weights.convolution(name, [shape.n_out, shape.n_in / shape.groups, shape.kernel])?;
        let bias = weights.tensor(&format!("{name}.bias"), &[shape.n_out])?;
        Ok(Self { shape, weight, bias: Some(bias) })
    }

    /// Creates a convolution without bias: one tap, every channel.
    pub(in crate::snac) fn pointwise(n_in: usize, weight: Vec<f32>) -> Self {
        let n_out = weight.len() / n_in;
        Self { shape: Shape::same(n_in, n_out, 1), weight, bias: None }
    }

    /// Returns its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the folded weights, `[n_out, n_in / groups, kernel]`.
    pub fn weight(&self) -> &[f32] {
        &self.weight
    }

    /// Returns the bias `[n_out]`, where it has one.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// Returns the state before the first input.
    pub fn start(&self) -> Halo {
        Halo(Plane::zeros(self.shape.n_in, self.shape.padding))
    }

    /// Takes `[n_in, T]`, gives the outputs that became final.
    pub fn push(&self, halo: &mut Halo, x: &Plane, flow: Flow) -> Plane {
        let mut seen = halo.0.then(x);
        if flow == Flow::Last {
            seen = seen.then(&Plane::zeros(self.shape.n_in, self.shape.padding));
        }
        let y = self.valid(&seen);
        halo.0 = seen.slice(y.len() * self.shape.stride, seen.len());
        y
    }

    /// Returns the outputs whose taps all lie inside `x`.
    pub fn valid(&self, x: &Plane) -> Plane {
        let Shape { n_in, n_out, kernel, stride, dilation, groups, .. } = self.shape;
        let span = (kernel - 1) * dilation + 1;
        let len = if x.len() < span { 0 } else { (x.len() - span) / stride + 1 };
        let mut y = Plane::zeros(n_out, len);
        if len == 0 {
            return y;
        }
        let (group_in, group_out) = (n_in / groups, n_out / groups);
        for group in 0..groups {
            let taps = (group * group_in..(group + 1) * group_in)
                .flat_map(|channel| (0..kernel).map(move |tap| &x.row(channel)[tap * dilation..]));
            // Outputs of a stride see every stride-th input; these are gathered once so that rows stay contiguous.
            let gathered: Vec<Vec<f32>>;
            let inputs: Vec<&[f32]> = if stride == 1 {
                taps.collect()
            } else {
                gathered = taps.map(|tap| tap.iter().step_by(stride).take(len).copied().collect()).collect();
                gathered.iter().map(Vec::as_slice).collect()
            };
            for channel in group * group_out..(group + 1) * group_out {
                let row = y.row_mut(channel);
                if let Some(bias) = &self.bias {
                    row.fill(bias[channel]);
                }
                accumulate(row, &self.weight[channel * inputs.len()..(channel + 1) * inputs.len()], &inputs);
            }
        }
        y
    }
}
