//! Everything of a block of rows while it is in the cache: Snake and the wide convolution write the operand of the
//! product, whose sums start from skip and bias.

use super::{Residual, TAPS};
use crate::history::Histories;
use crate::isa::dispatch;
use crate::panel::{self, Layer, Operand, Panels, Part};
use crate::queue::CpuQueue;
use crate::snake::{Snake, snake};
use crate::step::{Arena, Step, Timeline};
use crate::{Budget, Result};

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    dilation: usize,
    entry: Snake,
    /// `[7, C]`
    taps: Vec<f32>,
    wide_bias: Vec<f32>,
    middle: Snake,
    mix_bias: Vec<f32>,
    panels: Panels,
}

impl Prepared {
    pub(super) fn new(layer: &Residual<'_>, budget: &Budget) -> Result<Self> {
        let n = layer.n_channels;
        Ok(Self {
            n_channels: n,
            dilation: layer.dilation,
            entry: Snake::new(layer.alpha),
            taps: (0..TAPS).flat_map(|k| (0..n).map(move |c| layer.wide[c * TAPS + k])).collect(),
            wide_bias: layer.wide_bias.to_vec(),
            middle: Snake::new(layer.mix_alpha),
            mix_bias: layer.mix_bias.to_vec(),
            panels: Panels::pack_transposed(budget, [n, n], layer.mix)?,
        })
    }

    fn halo(&self) -> usize {
        (TAPS - 1) * self.dilation
    }

    pub(super) fn run(
        &self,
        queue: &CpuQueue,
        step: Step<'_>,
        timeline: Timeline,
        arena: Arena<'_>,
        (x, y): (&[f32], &mut [f32]),
    ) -> Result<()> {
        if x.is_empty() {
            return Ok(());
        }
        let mut histories = Histories::new(arena, self.halo() * self.n_channels)?;
        let pass = Pass { layer: self, step, timeline, histories: &histories, x };
        panel::run(queue, &self.panels, &pass, y)?;
        histories.roll(&step, x);
        Ok(())
    }
}

struct Pass<'a> {
    layer: &'a Prepared,
    step: Step<'a>,
    timeline: Timeline,
    histories: &'a Histories<'a>,
    x: &'a [f32],
}

impl Layer for Pass<'_> {
    fn prepare(&self, part: &mut Part, operand: &mut Operand<'_>, scratch: &mut [f32]) {
        let pass = self;
        dispatch!(
            part.isa,
            prepare(pass: &Pass<'_>, part: &mut Part, operand: &mut Operand<'_>, scratch: &mut [f32])
        );
    }

    fn finish(&self, part: &mut Part) {
        part.silence(self.step, self.timeline);
    }

    /// The Snake of a block's rows and of those before them.
    fn scratch_len(&self, n_rows: usize) -> usize {
        (n_rows + self.layer.halo()) * self.layer.n_channels
    }
}

#[inline(always)]
fn prepare(pass: &Pass<'_>, part: &mut Part, operand: &mut Operand<'_>, scratch: &mut [f32]) {
    let layer = pass.layer;
    let (n, dilation) = (layer.n_channels, layer.dilation);
    for segment in part.segments(pass.step.n_latents * pass.timeline.rate) {
        let history = pass.histories.of(&pass.step, pass.x, segment.stream, n);
        // Output row t sees the rows t ..= t + 6 d of memory and step together; its skip is row t + 3 d.
        let first = segment.rows.start;
        for (index, z) in scratch.chunks_exact_mut(n).take(segment.rows.len() + layer.halo()).enumerate() {
            layer.entry.apply(0, history.row(first + index), z);
        }
        for index in 0..segment.rows.len() {
            let row = part.rows.start + segment.first + index;
            let columns = part.columns.clone();
            let skip = &history.row(first + index + 3 * dilation)[columns.clone()];
            let (bias, sums) = (&layer.mix_bias[columns], part.sums(row));
            let (skip, bias) = (&skip[..sums.len()], &bias[..sums.len()]);
            for c in 0..sums.len() {
                sums[c] = skip[c] + bias[c];
            }
            for (first, to) in operand.row(segment.first + index) {
                wide(layer, &scratch[index * n..], first, to);
            }
        }
    }
}

/// Snake of the wide convolution for the channels from `first` on; `z` begins with its first row.
#[inline(always)]
fn wide(layer: &Prepared, z: &[f32], first: usize, to: &mut [f32]) {
    let (n, len) = (layer.n_channels, to.len());
    let row = |k: usize| &z[k * layer.dilation * n + first..][..len];
    let tap = |k: usize| &layer.taps[k * n + first..][..len];
    let rows: [&[f32]; TAPS] = [row(0), row(1), row(2), row(3), row(4), row(5), row(6)];
    let taps: [&[f32]; TAPS] = [tap(0), tap(1), tap(2), tap(3), tap(4), tap(5), tap(6)];
    let bias = &layer.wide_bias[first..][..len];
    let (alpha, inverse) = (&layer.middle.alpha[first..][..len], &layer.middle.inverse[first..][..len]);
    for c in 0..len {
        let mut sum = bias[c];
        for k in 0..TAPS {
            sum = taps[k][c].mul_add(rows[k][c], sum);
        }
        to[c] = snake(sum, alpha[c], inverse[c]);
    }
}
