//! Sixteen lanes of channels, whose sums stay in registers. The weights are padded with zeros to
//! whole lanes.

use super::{Entry, TAPS};
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::plan::{CpuLayer, Input};
use crate::layer::step::Step;
use crate::queue::{CpuQueue, Disjoint};

const LANES: usize = 16;
/// Output rows per task.
const TASK_LEN: usize = 256;
/// The samples that a task sees.
type Samples = [f32; TASK_LEN + TAPS - 1];

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    /// `[C / 16, 1 + 7, 16]`: the bias, then the taps.
    weights: Vec<[[f32; LANES]; 1 + TAPS]>,
}

impl Prepared {
    pub(super) fn new(layer: &Entry<'_>) -> Self {
        let mut weights = vec![[[0.0; LANES]; 1 + TAPS]; layer.n_channels.div_ceil(LANES)];
        for (c, (bias, taps)) in layer.bias.iter().zip(layer.weight.chunks_exact(TAPS)).enumerate() {
            let lanes = &mut weights[c / LANES];
            lanes[0][c % LANES] = *bias;
            for (lanes, tap) in lanes[1..].iter_mut().zip(taps) {
                lanes[c % LANES] = *tap;
            }
        }
        Self { n_channels: layer.n_channels, weights }
    }
}

impl CpuLayer for Prepared {
    fn run(&self, queue: &CpuQueue, input: &Input<'_>, y: &mut [f32]) -> Result<()> {
        let Step { rows, n_latents } = input.step;
        let (n, len) = (self.n_channels, n_latents * input.timeline.rate);
        let n_tasks = len.div_ceil(TASK_LEN);
        let output = Disjoint::new(y);
        queue.run(rows.len() * n_tasks, |task| {
            let (stream, first) = (task / n_tasks, task % n_tasks * TASK_LEN);
            let n_rows = TASK_LEN.min(len - first);
            let start = (stream * len + first) * n;
            // SAFETY: every task has its own rows of its stream.
            let y = unsafe { output.part(start..start + n_rows * n) };
            let history = input.history(stream);
            let mut x: Samples = [0.0; TASK_LEN + TAPS - 1];
            for (index, x) in x[..n_rows + TAPS - 1].iter_mut().enumerate() {
                *x = history.row(first + index)[0];
            }
            let (layer, samples) = (self, &x);
            dispatch!(queue.cpu().isa, outputs(layer: &Prepared, samples: &Samples, y: &mut [f32]));
            let live = input.timeline.live(&rows.as_slice()[stream], n_latents);
            for (_, y) in (first..).zip(y.chunks_exact_mut(n)).filter(|(t, _)| !live.contains(t)) {
                y.fill(0.0);
            }
        });
        Ok(())
    }
}

#[inline(always)]
fn outputs(layer: &Prepared, samples: &Samples, y: &mut [f32]) {
    for (y, x) in y.chunks_exact_mut(layer.n_channels).zip(samples.windows(TAPS)) {
        for (y, weights) in y.chunks_mut(LANES).zip(&layer.weights) {
            let mut lanes = weights[0];
            for k in 0..TAPS {
                for lane in 0..LANES {
                    lanes[lane] = weights[1 + k][lane].mul_add(x[k], lanes[lane]);
                }
            }
            match y.as_mut_array::<LANES>() {
                Some(y) => *y = lanes,
                None => y.copy_from_slice(&lanes[..y.len()]),
            }
        }
    }
}
