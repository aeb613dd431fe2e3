//! Processes a block of rows while it is in the cache: Snake and the wide convolution write the
//! operand of the product, whose sums start from skip and bias.

use super::{Residual, TAPS};
use crate::layer::panel::{self, Layer, Operand, Panels, Part};
use crate::layer::plan::{CpuLayer, Input};
use crate::layer::snake::{LANES, Lanes, Snake, lanes};
use crate::matmul::tile::STRIDE_A;
use crate::queue::CpuQueue;
use crate::{Budget, Result};

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    dilation: usize,
    entry: Snake,
    /// The wide convolution and the Snake after it, 16 channels at a time.
    groups: Vec<Group>,
    mix_bias: Vec<f32>,
    panels: Panels,
}

/// Constants of 16 channels; unused ones are 0.
#[derive(Debug)]
#[repr(align(64))]
struct Group {
    taps: [Lanes; TAPS],
    bias: Lanes,
    high: Lanes,
    low: Lanes,
    inverse: Lanes,
}

impl Group {
    fn new(layer: &Residual<'_>, middle: &Snake, first: usize) -> Self {
        let lanes = |value: &dyn Fn(usize) -> f32| {
            std::array::from_fn(|lane| if first + lane < layer.n_channels { value(first + lane) } else { 0.0 })
        };
        Self {
            taps: std::array::from_fn(|k| lanes(&|c| layer.wide[c * TAPS + k])),
            bias: lanes(&|c| layer.wide_bias[c]),
            high: lanes(&|c| middle.high[c]),
            low: lanes(&|c| middle.low[c]),
            inverse: lanes(&|c| middle.inverse[c]),
        }
    }
}

impl Prepared {
    pub(super) fn new(layer: &Residual<'_>, budget: &Budget) -> Result<Self> {
        let n = layer.n_channels;
        let middle = Snake::new(layer.mix_alpha);
        Ok(Self {
            n_channels: n,
            dilation: layer.dilation,
            entry: Snake::new(layer.alpha),
            groups: (0..n).step_by(LANES).map(|first| Group::new(layer, &middle, first)).collect(),
            mix_bias: layer.mix_bias.to_vec(),
            panels: Panels::pack_transposed(budget, [n, n], layer.mix)?,
        })
    }

    fn halo(&self) -> usize {
        halo(self.dilation)
    }

    /// Returns the number of floats per row in scratch: whole lanes, plus a gap so that rows do not
    /// map to the same cache sets.
    fn width(&self) -> usize {
        width(self.n_channels)
    }
}

impl CpuLayer for Prepared {
    fn run(&self, queue: &CpuQueue, input: &Input<'_>, y: &mut [f32]) -> Result<()> {
        panel::run(queue, &self.panels, &Pass { layer: self, input }, y)
    }
}

/// Returns the number of floats of scratch for the rows of a block.
pub(crate) fn scratch_len(n_channels: usize, dilation: usize, n_rows: usize) -> usize {
    (n_rows + halo(dilation)) * width(n_channels)
}

fn halo(dilation: usize) -> usize {
    (TAPS - 1) * dilation
}

fn width(n_channels: usize) -> usize {
    n_channels.next_multiple_of(LANES) + LANES
}

struct Pass<'a> {
    layer: &'a Prepared,
    input: &'a Input<'a>,
}

impl Layer for Pass<'_> {
    #[inline(always)]
    fn prepare(&self, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]) {
        let layer = self.layer;
        let width = layer.width();
        for segment in part.segments(self.input.step.n_latents * self.input.timeline.rate) {
            let history = self.input.history(segment.stream);
            // Output row t sees the rows t ..= t + 6 d of memory and step joined; its skip is row t
            // + 3 d.
            let first = segment.rows.start;
            for (index, z) in scratch.chunks_exact_mut(width).take(segment.rows.len() + layer.halo()).enumerate() {
                layer.entry.apply(0, history.row(first + index), z);
            }
            for index in 0..segment.rows.len() {
                let row = part.rows.start + segment.first + index;
                let columns = part.columns.clone();
                let skip = &history.row(first + index + 3 * layer.dilation)[columns.clone()];
                let (bias, sums) = (&layer.mix_bias[columns], part.sums(row));
                let (skip, bias) = (&skip[..sums.len()], &bias[..sums.len()]);
                for c in 0..sums.len() {
                    sums[c] = skip[c] + bias[c];
                }
            }
            let z = &scratch[..(segment.rows.len() + layer.halo()) * width];
            for (group, constants) in layer.groups.iter().enumerate() {
                let (z, to) = (&z[group * LANES..], operand.lanes(segment.first, group * LANES));
                wide(constants, Rows { z, width, dilation: layer.dilation, to, n_rows: segment.rows.len() });
            }
        }
    }

    fn is_silent(&self, part: &Part<'_>) -> bool {
        part.is_silent(self.input.step, self.input.timeline)
    }

    fn finish(&self, part: &mut Part<'_>) {
        part.silence(self.input.step, self.input.timeline);
    }

    /// Returns the number of floats for the Snake of a block's rows and of the rows before them.
    fn scratch_len(&self, n_rows: usize) -> usize {
        scratch_len(self.layer.n_channels, self.layer.dilation, n_rows)
    }
}

/// Sixteen channels of a segment.
struct Rows<'a> {
    /// Rows of the Snake, `width` floats apart.
    z: &'a [f32],
    width: usize,
    dilation: usize,
    /// Rows of the operand, `STRIDE_A` floats apart.
    to: &'a mut [f32],
    n_rows: usize,
}

/// Computes the Snake of the wide convolution.
#[inline(always)]
fn wide(constants: &Group, rows: Rows<'_>) {
    let Rows { z, width, dilation, to, n_rows } = rows;
    assert!(z.len() >= (n_rows + (TAPS - 1) * dilation - 1) * width + LANES);
    assert!(to.len() >= (n_rows - 1) * STRIDE_A + LANES);
    let offsets: [usize; TAPS] = std::array::from_fn(|k| k * dilation * width);
    for row in 0..n_rows {
        let mut sum = constants.bias;
        for (offset, taps) in offsets.iter().zip(&constants.taps) {
            // SAFETY: row + k d is below n_rows + 6 d, and the assertion above guarantees 16 floats
            // for every such row.
            let z = unsafe { &*z.as_ptr().add(row * width + offset).cast::<Lanes>() };
            for lane in 0..LANES {
                sum[lane] = taps[lane].mul_add(z[lane], sum[lane]);
            }
        }
        let result = lanes(&sum, &constants.high, &constants.low, &constants.inverse);
        // SAFETY: row is below n_rows, and the assertion above guarantees 16 floats for every such
        // row.
        unsafe { *to.as_mut_ptr().add(row * STRIDE_A).cast::<Lanes>() = result };
    }
}
