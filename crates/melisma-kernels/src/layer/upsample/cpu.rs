//! One product: an operand row is the Snake of two neighbouring inputs, and gives s consecutive
//! output rows.

use crate::layer::panel::{self, Layer, Operand, Panels, Part, Segment};
use crate::layer::plan::{CpuLayer, Input};
use crate::layer::snake::Snake;
use crate::layer::strided::Strided;
use crate::queue::CpuQueue;
use crate::{Budget, Result};

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    n_out: usize,
    stride: usize,
    snake: Snake,
    /// Repeated for each phase: `[s, C_out]`.
    bias: Vec<f32>,
    panels: Panels,
}

impl Prepared {
    pub(super) fn new(layer: &Strided<'_>, budget: &Budget) -> Result<Self> {
        let Strided { n_in, n_out, stride, .. } = *layer;
        let panels = Panels::pack(budget, [2 * n_in, stride * n_out], |k, first, lanes| {
            // The first C_in steps belong to z[q-1].
            let (input, tap) = if k < n_in { (k, 1) } else { (k - n_in, 0) };
            for (lane, value) in lanes.iter_mut().enumerate() {
                let (phase, output) = ((first + lane) / n_out, (first + lane) % n_out);
                *value = layer.weight[((output * stride + phase) * n_in + input) * 2 + tap];
            }
        })?;
        let snake = Snake::new(layer.alpha);
        Ok(Self { n_in, n_out, stride, snake, bias: layer.bias.repeat(stride), panels })
    }
}

impl CpuLayer for Prepared {
    fn run(&self, queue: &CpuQueue, input: &Input<'_>, y: &mut [f32]) -> Result<()> {
        panel::run(queue, &self.panels, &Pass { layer: self, input }, y)
    }
}

struct Pass<'a> {
    layer: &'a Prepared,
    input: &'a Input<'a>,
}

impl Pass<'_> {
    fn inputs_per_stream(&self) -> usize {
        self.input.step.n_latents * self.input.timeline.rate / self.layer.stride
    }
}

impl Layer for Pass<'_> {
    #[inline(always)]
    fn prepare(&self, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]) {
        let Prepared { n_in, snake, bias, .. } = self.layer;
        let z = &mut scratch[..*n_in];
        for segment in part.segments(self.inputs_per_stream()) {
            let history = self.input.history(segment.stream);
            // Every input is the second half of its own row and the first half of the next.
            for index in 0..=segment.rows.len() {
                snake.apply(0, history.row(segment.rows.start + index), z);
                let row = segment.first + index;
                if index > 0 {
                    operand.write(row - 1, *n_in, z);
                }
                if index < segment.rows.len() {
                    operand.write(row, 0, z);
                    let columns = part.columns.clone();
                    let at = part.rows.start + row;
                    part.sums(at).copy_from_slice(&bias[columns]);
                }
            }
        }
    }

    fn is_silent(&self, part: &Part<'_>) -> bool {
        let (Input { step, timeline, .. }, stride) = (self.input, self.layer.stride);
        part.segments(self.inputs_per_stream()).all(|Segment { stream, rows, .. }| {
            let live = timeline.live(&step.rows.as_slice()[stream], step.n_latents);
            live.is_empty() || rows.end * stride <= live.start || live.end <= rows.start * stride
        })
    }

    /// Clears the outputs that are not live; a row of the product is `stride` rows of the output.
    fn finish(&self, part: &mut Part<'_>) {
        let Prepared { n_out, stride, .. } = *self.layer;
        let columns = part.columns.clone();
        for segment in part.segments(self.inputs_per_stream()) {
            let Input { step, timeline, .. } = self.input;
            let live = timeline.live(&step.rows.as_slice()[segment.stream], step.n_latents);
            let first = part.rows.start + segment.first;
            for (index, row) in segment.rows.enumerate() {
                for phase in (0..stride).filter(|phase| !live.contains(&(row * stride + phase))) {
                    let start = (phase * n_out).clamp(columns.start, columns.end) - columns.start;
                    let end = ((phase + 1) * n_out).clamp(columns.start, columns.end) - columns.start;
                    part.sums(first + index)[start..end].fill(0.0);
                }
            }
        }
    }

    fn scratch_len(&self, _n_rows: usize) -> usize {
        self.layer.n_in
    }
}
