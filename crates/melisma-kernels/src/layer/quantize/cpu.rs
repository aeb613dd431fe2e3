//! A task is a frame. Vectors hold neighbouring channels in projections and neighbouring codes in
//! the search.

use super::{Pass, Quantize, SUM_LANES, Shape, directions, normalise};
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::history::{Histories, History};
use crate::layer::step::{Arena, Step};
use crate::queue::{CpuQueue, Disjoint};

const LANES: usize = 16;

#[derive(Debug)]
pub(super) struct Prepared {
    shape: Shape,
    levels: Vec<Level>,
}

/// Channels are padded with zeros to whole sums, codes with NaN, which the search never chooses.
#[derive(Debug)]
struct Level {
    stride: usize,
    places: Vec<usize>,
    codebook: Vec<f32>,
    /// `[N / 16, D, 16]`
    directions: Vec<[f32; LANES]>,
    /// `[D, C / 32, 32]`
    in_weight: Vec<[f32; SUM_LANES]>,
    in_bias: Vec<f32>,
    /// `[C / 16, 1 + D, 16]`: the bias, then the weights.
    out: Vec<[f32; LANES]>,
}

impl Level {
    fn new(level: &super::Level<'_>, Shape { n_channels, dim, .. }: Shape) -> Self {
        let rows = directions(level.codebook, dim);
        let n_codes = rows.len() / dim;
        let mut directions = vec![[f32::NAN; LANES]; n_codes.div_ceil(LANES) * dim];
        for (code, row) in rows.chunks_exact(dim).enumerate() {
            for (d, value) in row.iter().enumerate() {
                directions[code / LANES * dim + d][code % LANES] = *value;
            }
        }
        let width = n_channels.div_ceil(SUM_LANES);
        let mut in_weight = vec![[0.0; SUM_LANES]; dim * width];
        for (d, row) in level.in_weight.chunks_exact(n_channels).enumerate() {
            in_weight[d * width..(d + 1) * width].as_flattened_mut()[..n_channels].copy_from_slice(row);
        }
        let mut out = vec![[0.0; LANES]; padded(n_channels) / LANES * (1 + dim)];
        for (c, (bias, row)) in level.out_bias.iter().zip(level.out_weight.chunks_exact(dim)).enumerate() {
            for (d, value) in std::iter::once(bias).chain(row).enumerate() {
                out[c / LANES * (1 + dim) + d][c % LANES] = *value;
            }
        }
        Self {
            stride: level.stride,
            places: level.places.to_vec(),
            codebook: level.codebook.to_vec(),
            directions,
            in_weight,
            in_bias: level.in_bias.to_vec(),
            out,
        }
    }
}

impl Prepared {
    pub(super) fn new(layer: &Quantize<'_>, shape: Shape) -> Self {
        Self { shape, levels: layer.levels.iter().map(|level| Level::new(level, shape)).collect() }
    }

    pub(super) fn run(&self, queue: &CpuQueue, step: Step<'_>, arena: Arena<'_>, pass: Pass<'_>) -> Result<()> {
        let Shape { n_channels, dim, frame_latents, frame_codes, n_past, timeline } = self.shape;
        let (x, codes, margins) =
            (pass.x.host()?, pass.codes.host()?, pass.margins.map(|view| view.host()).transpose()?);
        if x.is_empty() {
            return Ok(());
        }
        let mut histories = Histories::new(arena, n_past * n_channels)?;
        let n_frames = step.n_latents / frame_latents;
        let (codes, margins) = (Disjoint::new(codes), margins.map(Disjoint::new));
        let len = scratch_len([n_channels, dim], [frame_latents, frame_codes]);
        queue.run_with_scratch(step.rows.len() * n_frames, len, |scratch, task| {
            let (stream, first) = (task / n_frames, task % n_frames * frame_latents);
            let places = task * frame_codes..(task + 1) * frame_codes;
            // SAFETY: every task has its own frame.
            let codes = unsafe { codes.part(places.clone()) };
            let (margins_here, scratch) = scratch.split_at_mut(frame_codes);
            if timeline.live(&step.rows.as_slice()[stream], step.n_latents).contains(&first) {
                let mut frame = Frame::new(self.shape, scratch, (codes, &mut *margins_here));
                frame.read(histories.of(&step, x, stream, n_channels), first);
                let (layer, frame) = (self, &mut frame);
                dispatch!(queue.cpu().isa, quantize(layer: &Prepared, frame: &mut Frame<'_>));
            } else {
                codes.fill(0);
                margins_here.fill(0.0);
            }
            if let Some(margins) = &margins {
                // SAFETY: every task has its own frame.
                unsafe { margins.part(places) }.copy_from_slice(margins_here);
            }
        })?;
        histories.roll(&step, x);
        Ok(())
    }
}

fn padded(n_channels: usize) -> usize {
    n_channels.next_multiple_of(SUM_LANES)
}

/// Returns the number of floats of scratch per thread.
pub(crate) fn scratch_len([n_channels, dim]: [usize; 2], [frame_latents, frame_codes]: [usize; 2]) -> usize {
    (frame_latents + 1) * padded(n_channels) + dim + frame_codes
}

/// One frame, while its levels are quantised.
struct Frame<'a> {
    n_channels: usize,
    /// `[L, C]`, C padded.
    residual: &'a mut [f32],
    /// `[C]`, padded.
    mean: &'a mut [f32],
    /// `[D]`
    vector: &'a mut [f32],
    codes: &'a mut [i32],
    margins: &'a mut [f32],
}

impl<'a> Frame<'a> {
    fn new(shape: Shape, scratch: &'a mut [f32], (codes, margins): (&'a mut [i32], &'a mut [f32])) -> Self {
        let width = padded(shape.n_channels);
        let (residual, rest) = scratch.split_at_mut(shape.frame_latents * width);
        let (mean, vector) = rest.split_at_mut(width);
        Self { n_channels: shape.n_channels, residual, mean, vector, codes, margins }
    }

    fn read(&mut self, history: History<'_>, first: usize) {
        for (index, row) in self.residual.chunks_exact_mut(self.mean.len()).enumerate() {
            row[..self.n_channels].copy_from_slice(history.row(first + index));
            row[self.n_channels..].fill(0.0);
        }
    }
}

#[inline(always)]
fn quantize(layer: &Prepared, frame: &mut Frame<'_>) {
    let Frame { residual, mean, vector, codes, margins, .. } = frame;
    let (width, dim) = (mean.len(), vector.len());
    for (index, level) in layer.levels.iter().enumerate() {
        for (group, place) in residual.chunks_exact_mut(level.stride * width).zip(&level.places) {
            average(group, mean);
            project(level, mean, vector);
            normalise(vector);
            let found = nearest(level, vector);
            (codes[*place], margins[*place]) = (found.code as i32, found.best - found.second);
            if index + 1 < layer.levels.len() {
                subtract(level, &level.codebook[found.code * dim..(found.code + 1) * dim], (group, width));
            }
        }
    }
}

#[inline(always)]
fn average(group: &[f32], mean: &mut [f32]) {
    let (first, others) = group.split_at(mean.len());
    mean.copy_from_slice(first);
    for row in others.chunks_exact(mean.len()) {
        for (mean, value) in mean.iter_mut().zip(row) {
            *mean += value;
        }
    }
    let stride = (group.len() / mean.len()) as f32;
    mean.iter_mut().for_each(|mean| *mean /= stride);
}

#[inline(always)]
fn project(level: &Level, mean: &[f32], vector: &mut [f32]) {
    let mean = mean.as_chunks::<SUM_LANES>().0;
    for ((value, weight), bias) in vector.iter_mut().zip(level.in_weight.chunks_exact(mean.len())).zip(&level.in_bias) {
        let mut lanes = [0f32; SUM_LANES];
        for (weight, mean) in weight.iter().zip(mean) {
            for lane in 0..SUM_LANES {
                lanes[lane] = weight[lane].mul_add(mean[lane], lanes[lane]);
            }
        }
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
        }
        *value = lanes[0] + bias;
    }
}

/// The code of the largest cosine, and the two largest cosines.
struct Nearest {
    code: usize,
    best: f32,
    second: f32,
}

#[inline(always)]
fn nearest(level: &Level, direction: &[f32]) -> Nearest {
    let (mut best, mut second) = ([f32::NEG_INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    // Floats, like the cosines, so that one mask selects both.
    let mut blocks = [0f32; LANES];
    for (block, rows) in level.directions.chunks_exact(direction.len()).enumerate() {
        let mut cosines = [0f32; LANES];
        for (row, value) in rows.iter().zip(direction) {
            for lane in 0..LANES {
                cosines[lane] = row[lane].mul_add(*value, cosines[lane]);
            }
        }
        let at = block as f32;
        for lane in 0..LANES {
            let (cosine, most) = (cosines[lane], best[lane]);
            let next = if cosine > second[lane] { cosine } else { second[lane] };
            second[lane] = if cosine > most { most } else { next };
            blocks[lane] = if cosine > most { at } else { blocks[lane] };
            best[lane] = if cosine > most { cosine } else { most };
        }
    }
    let code = |lane: usize| blocks[lane] as usize * LANES + lane;
    let mut found = Nearest { code: code(0), best: best[0], second: second[0] };
    for lane in 1..LANES {
        let wins = best[lane] > found.best || best[lane] == found.best && code(lane) < found.code;
        let (least, next) = (best[lane].min(found.best), second[lane].max(found.second));
        found.second = least.max(next);
        if wins {
            (found.code, found.best) = (code(lane), best[lane]);
        }
    }
    found
}

/// Subtracts the projected `row` of the codebook from each latent of a group.
#[inline(always)]
fn subtract(level: &Level, row: &[f32], (group, width): (&mut [f32], usize)) {
    for (at, out) in level.out.chunks_exact(1 + row.len()).enumerate() {
        let mut sums = out[0];
        for (weight, value) in out[1..].iter().zip(row) {
            for lane in 0..LANES {
                sums[lane] = weight[lane].mul_add(*value, sums[lane]);
            }
        }
        for latent in group.chunks_exact_mut(width) {
            let residual = &mut latent.as_chunks_mut::<LANES>().0[at];
            for lane in 0..LANES {
                residual[lane] -= sums[lane];
            }
        }
    }
}
