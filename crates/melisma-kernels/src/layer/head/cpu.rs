//! Sixteen lanes of channels. Snake rows and weights are padded with zeros to whole lanes.

use super::{Head, TAPS};
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::history::History;
use crate::layer::plan::{CpuLayer, Input};
use crate::layer::snake::{Snake, tanh};
use crate::layer::step::Step;
use crate::queue::{CpuQueue, Disjoint};

const LANES: usize = 16;
/// Outputs per task.
const TASK_LEN: usize = 256;

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    snake: Snake,
    /// `[7, C]`, C padded to lanes.
    taps: Vec<f32>,
    bias: f32,
}

impl Prepared {
    pub(super) fn new(layer: &Head<'_>) -> Self {
        let n = layer.n_channels;
        let weight = |k: usize, c: usize| if c < n { layer.weight[c * TAPS + k] } else { 0.0 };
        let taps = (0..TAPS).flat_map(|k| (0..n.next_multiple_of(LANES)).map(move |c| weight(k, c))).collect();
        Self { n_channels: n, snake: Snake::new(layer.alpha), taps, bias: layer.bias }
    }
}

impl CpuLayer for Prepared {
    fn run(&self, queue: &CpuQueue, input: &Input<'_>, y: &mut [f32]) -> Result<()> {
        let Step { rows, n_latents } = input.step;
        let len = y.len() / rows.len();
        let n_tasks = len.div_ceil(TASK_LEN);
        let output = Disjoint::new(y);
        queue.run_with_scratch(rows.len() * n_tasks, scratch_len(self.n_channels), |scratch, task| {
            let (stream, first) = (task / n_tasks, task % n_tasks * TASK_LEN);
            let start = stream * len + first;
            // SAFETY: every task has its own outputs of its stream.
            let y = unsafe { output.part(start..start + TASK_LEN.min(len - first)) };
            let (layer, history) = (self, input.history(stream));
            dispatch!(
                queue.cpu().isa,
                outputs(layer: &Prepared, history: History<'_>, first: usize, scratch: &mut [f32], y: &mut [f32])
            );
            let live = input.timeline.live(&rows.as_slice()[stream], n_latents);
            for (_, y) in (first..).zip(y).filter(|(t, _)| !live.contains(t)) {
                *y = 0.0;
            }
        })
    }
}

/// Returns the number of floats of scratch per thread.
pub(crate) fn scratch_len(n_channels: usize) -> usize {
    (TASK_LEN + TAPS - 1) * n_channels.next_multiple_of(LANES)
}

#[inline(always)]
fn outputs(layer: &Prepared, history: History<'_>, first: usize, scratch: &mut [f32], y: &mut [f32]) {
    let (n, width) = (layer.n_channels, layer.n_channels.next_multiple_of(LANES));
    for (index, z) in scratch.chunks_exact_mut(width).take(y.len() + TAPS - 1).enumerate() {
        layer.snake.apply(0, history.row(first + index), z);
        z[n..].fill(0.0);
    }
    for (index, y) in y.iter_mut().enumerate() {
        let mut lanes = [0f32; LANES];
        let z = &scratch[index * width..][..TAPS * width];
        for (z, taps) in z.as_chunks::<LANES>().0.iter().zip(layer.taps.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                lanes[lane] = taps[lane].mul_add(z[lane], lanes[lane]);
            }
        }
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
        }
        *y = tanh(lanes[0] + layer.bias);
    }
}
