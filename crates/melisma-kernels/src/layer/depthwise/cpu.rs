//! Vectors hold neighbouring channels; threads share the streams.

use super::Depthwise;
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::history::History;
use crate::layer::plan::{CpuLayer, Input};
use crate::layer::step::Step;
use crate::layer::transposed;
use crate::queue::CpuQueue;

#[derive(Debug)]
pub(super) struct Prepared {
    /// `[K, C]`
    taps: Vec<f32>,
    bias: Vec<f32>,
}

impl Prepared {
    pub(super) fn new(layer: &Depthwise<'_>) -> Self {
        Self { taps: transposed(layer.weight, layer.n_taps), bias: layer.bias.to_vec() }
    }
}

impl CpuLayer for Prepared {
    fn run(&self, queue: &CpuQueue, input: &Input<'_>, y: &mut [f32]) -> Result<()> {
        let Step { rows, n_latents } = input.step;
        let len = y.len() / rows.len();
        for (stream, y) in y.chunks_exact_mut(len).enumerate() {
            let history = input.history(stream);
            let live = input.timeline.live(&rows.as_slice()[stream], n_latents);
            for (t, y) in y.chunks_exact_mut(self.bias.len()).enumerate() {
                if live.contains(&t) {
                    let layer = self;
                    dispatch!(queue.cpu().isa, sum(layer: &Prepared, history: History<'_>, t: usize, y: &mut [f32]));
                } else {
                    y.fill(0.0);
                }
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn sum(layer: &Prepared, history: History<'_>, t: usize, y: &mut [f32]) {
    y.copy_from_slice(&layer.bias);
    for (k, taps) in layer.taps.chunks_exact(y.len()).enumerate() {
        let x = &history.row(t + k)[..y.len()];
        for c in 0..y.len() {
            y[c] = taps[c].mul_add(x[c], y[c]);
        }
    }
}
