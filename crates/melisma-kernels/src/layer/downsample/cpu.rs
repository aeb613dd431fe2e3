//! One product: an operand row is the Snake of 2s consecutive inputs, and neighbouring rows share s
//! of them.

use crate::layer::panel::{self, Layer, Operand, Panels, Part};
use crate::layer::plan::{CpuLayer, Input};
use crate::layer::snake::Snake;
use crate::layer::strided::Strided;
use crate::queue::CpuQueue;
use crate::{Budget, Result};

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    stride: usize,
    snake: Snake,
    bias: Vec<f32>,
    panels: Panels,
}

impl Prepared {
    pub(super) fn new(layer: &Strided<'_>, budget: &Budget) -> Result<Self> {
        let Strided { n_in, n_out, stride, weight, .. } = *layer;
        let n_taps = 2 * stride;
        let panels = Panels::pack(budget, [n_taps * n_in, n_out], |k, first, lanes| {
            let (tap, input) = (k / n_in, k % n_in);
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = weight[((first + lane) * n_in + input) * n_taps + tap];
            }
        })?;
        Ok(Self { n_in, stride, snake: Snake::new(layer.alpha), bias: layer.bias.to_vec(), panels })
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

impl Layer for Pass<'_> {
    #[inline(always)]
    fn prepare(&self, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]) {
        let Prepared { n_in, stride, snake, bias, .. } = self.layer;
        let z = &mut scratch[..*n_in];
        let columns = part.columns.clone();
        for row in part.rows.clone() {
            part.sums(row).copy_from_slice(&bias[columns.clone()]);
        }
        for segment in part.segments(self.input.step.n_latents * self.input.timeline.rate) {
            let history = self.input.history(segment.stream);
            let n_rows = segment.rows.len();
            // Every input is in the first half of its own row and in the second half of the row
            // before.
            for index in 0..(n_rows + 1) * stride {
                snake.apply(0, history.row(segment.rows.start * stride + index), z);
                let (row, tap) = (index / stride, index % stride);
                if row > 0 {
                    operand.write(segment.first + row - 1, (stride + tap) * n_in, z);
                }
                if row < n_rows {
                    operand.write(segment.first + row, tap * n_in, z);
                }
            }
        }
    }

    fn is_silent(&self, part: &Part<'_>) -> bool {
        part.is_silent(self.input.step, self.input.timeline)
    }

    fn finish(&self, part: &mut Part<'_>) {
        part.silence(self.input.step, self.input.timeline);
    }

    fn scratch_len(&self, _n_rows: usize) -> usize {
        self.layer.n_in
    }
}
