//! Loops over channels. A code vector is so short that projecting it costs less than fetching a
//! projected one.

use super::Embed;
use crate::device::isa::dispatch;
use crate::layer::step::Step;
use crate::layer::transposed;
use crate::queue::CpuQueue;

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    dim: usize,
    frame_latents: usize,
    frame_codes: usize,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    stride: usize,
    places: Vec<usize>,
    codebook: Vec<f32>,
    /// `[D, C]`
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Prepared {
    pub(super) fn new(layer: &Embed<'_>) -> Self {
        let (n_channels, dim) = (layer.n_channels, layer.dim);
        let level = |level: &super::Level<'_>| Level {
            stride: level.stride,
            places: level.places.to_vec(),
            codebook: level.codebook.to_vec(),
            weight: transposed(level.weight, dim),
            bias: level.bias.to_vec(),
        };
        let levels = layer.levels.iter().map(level).collect();
        Self { n_channels, dim, frame_latents: layer.frame_latents, frame_codes: layer.frame_codes(), levels }
    }

    pub(super) fn run(&self, queue: &CpuQueue, step: Step<'_>, codes: &[i32], y: &mut [f32]) {
        let n_frames = step.n_latents / self.frame_latents;
        let len = self.frame_latents * self.n_channels;
        for (index, y) in y.chunks_exact_mut(len.max(1)).enumerate() {
            let codes = &codes[index * self.frame_codes..(index + 1) * self.frame_codes];
            let row = &step.rows.as_slice()[index / n_frames];
            let first = row.start + (index % n_frames * self.frame_latents) as i64;
            let live = (row.end - first).clamp(0, self.frame_latents as i64) as usize;
            let (now, none) = y.split_at_mut(live * self.n_channels);
            none.fill(0.0);
            let layer = self;
            dispatch!(queue.cpu().isa, frame(layer: &Prepared, codes: &[i32], now: &mut [f32]));
        }
    }
}

#[inline(always)]
fn frame(layer: &Prepared, codes: &[i32], y: &mut [f32]) {
    let (n_channels, dim) = (layer.n_channels, layer.dim);
    for (t, y) in y.chunks_exact_mut(n_channels.max(1)).enumerate() {
        y.fill(0.0);
        for level in &layer.levels {
            let last = level.codebook.len() / dim - 1;
            let code = codes[level.places[t / level.stride]].clamp(0, last as i32) as usize;
            let vector = &level.codebook[code * dim..(code + 1) * dim];
            let bias = &level.bias[..y.len()];
            for c in 0..y.len() {
                let mut sum = bias[c];
                for (d, value) in vector.iter().enumerate() {
                    sum = level.weight[d * n_channels + c].mul_add(*value, sum);
                }
                y[c] += sum;
            }
        }
    }
}
