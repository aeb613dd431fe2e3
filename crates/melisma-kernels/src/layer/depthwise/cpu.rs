//! Channels side by side in vectors; streams shared out among the threads.

use super::Depthwise;
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::history::{Histories, History};
use crate::layer::step::{Arena, Step, Timeline};
use crate::queue::CpuQueue;

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    /// `[K, C]`
    taps: Vec<f32>,
    bias: Vec<f32>,
}

impl Prepared {
    pub(super) fn new(layer: &Depthwise<'_>) -> Self {
        let (n_channels, n_taps) = (layer.n_channels, layer.n_taps);
        let taps = (0..n_taps).flat_map(|k| (0..n_channels).map(move |c| layer.weight[c * n_taps + k])).collect();
        Self { n_channels, taps, bias: layer.bias.to_vec() }
    }

    pub(super) fn run(
        &self,
        queue: &CpuQueue,
        step: Step<'_>,
        timeline: Timeline,
        arena: Arena<'_>,
        (x, y): (&[f32], &mut [f32]),
    ) -> Result<()> {
        let n_channels = self.n_channels;
        if x.is_empty() {
            return Ok(());
        }
        let mut histories = Histories::new(arena, self.taps.len() - n_channels)?;
        let len = y.len() / step.rows.len();
        for (stream, y) in y.chunks_exact_mut(len).enumerate() {
            let history = histories.of(&step, x, stream, n_channels);
            let live = timeline.live(&step.rows.as_slice()[stream], step.n_latents);
            for (t, y) in y.chunks_exact_mut(n_channels).enumerate() {
                if live.contains(&t) {
                    let layer = self;
                    dispatch!(queue.cpu().isa, sum(layer: &Prepared, history: History<'_>, t: usize, y: &mut [f32]));
                } else {
                    y.fill(0.0);
                }
            }
        }
        histories.roll(&step, x);
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
