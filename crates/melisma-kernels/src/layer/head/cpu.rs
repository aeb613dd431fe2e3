//! Sixteen lanes of channels. Rows of the Snake are padded to whole lanes with zeros, and so are the weights.

use super::{Head, TAPS};
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::history::{Histories, History};
use crate::layer::snake::{Snake, tanh};
use crate::layer::step::{Arena, Step, Timeline};
use crate::queue::CpuQueue;

const LANES: usize = 16;
/// Outputs of one task.
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

    pub(super) fn run(
        &self,
        queue: &CpuQueue,
        step: Step<'_>,
        timeline: Timeline,
        arena: Arena<'_>,
        (x, y): (&[f32], &mut [f32]),
    ) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let mut histories = Histories::new(arena, (TAPS - 1) * self.n_channels)?;
        let len = y.len() / step.rows.len();
        let n_tasks = len.div_ceil(TASK_LEN);
        let output = Output(y.as_mut_ptr());
        let scratch_len = (TASK_LEN + TAPS - 1) * self.n_channels.next_multiple_of(LANES);
        queue.run_with_scratch(step.rows.len() * n_tasks, scratch_len, |scratch, task| {
            let (stream, first) = (task / n_tasks, task % n_tasks * TASK_LEN);
            let task_len = TASK_LEN.min(len - first);
            // SAFETY: every task has its own outputs of its stream.
            let y = unsafe { output.part(stream * len + first, task_len) };
            let history = histories.of(&step, x, stream, self.n_channels);
            let layer = self;
            dispatch!(
                queue.cpu().isa,
                outputs(layer: &Prepared, history: History<'_>, first: usize, scratch: &mut [f32], y: &mut [f32])
            );
            let live = timeline.live(&step.rows.as_slice()[stream], step.n_latents);
            for (t, y) in (first..).zip(y) {
                if !live.contains(&t) {
                    *y = 0.0;
                }
            }
        })?;
        histories.roll(&step, x);
        Ok(())
    }
}

struct Output(*mut f32);

// SAFETY: `part` gives out disjoint parts.
unsafe impl Sync for Output {}

impl Output {
    /// # Safety
    /// Parts that are alive together do not overlap, and lie within the output.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint; see Safety")]
    unsafe fn part(&self, start: usize, len: usize) -> &mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
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
