//! A product with packed weights; the sums start from bias, skip or input.

use super::{Mode, Pointwise};
use crate::layer::panel::{self, Layer, Operand, Panels, Part};
use crate::layer::step::{Step, Timeline};
use crate::queue::CpuQueue;
use crate::{Budget, Result};

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    mode: Mode,
    bias: Vec<f32>,
    panels: Panels,
}

impl Prepared {
    pub(super) fn new(layer: &Pointwise<'_>, budget: &Budget) -> Result<Self> {
        let bias = layer.bias.map_or_else(|| vec![0.0; layer.n_out], <[f32]>::to_vec);
        let panels = Panels::pack_transposed(budget, [layer.n_in, layer.n_out], layer.weight)?;
        Ok(Self { n_in: layer.n_in, mode: layer.mode, bias, panels })
    }

    pub(super) fn run(
        &self,
        queue: &CpuQueue,
        step: Step<'_>,
        timeline: Timeline,
        with: &[f32],
        (x, y): (&[f32], &mut [f32]),
    ) -> Result<()> {
        if self.mode == Mode::Noise && with.iter().all(|&deviate| deviate == 0.0) {
            y.copy_from_slice(x);
            return Ok(());
        }
        panel::run(queue, &self.panels, &Pass { layer: self, step, timeline, with, x }, y)
    }
}

struct Pass<'a> {
    layer: &'a Prepared,
    step: Step<'a>,
    timeline: Timeline,
    with: &'a [f32],
    x: &'a [f32],
}

impl Layer for Pass<'_> {
    #[inline(always)]
    fn prepare(&self, part: &mut Part<'_>, operand: &mut Operand<'_>, _scratch: &mut [f32]) {
        let n_in = self.layer.n_in;
        for (index, row) in part.rows.clone().enumerate() {
            let x = &self.x[row * n_in..(row + 1) * n_in];
            let columns = part.columns.clone();
            let (n_out, sums) = (self.layer.bias.len(), part.sums(row));
            sums.copy_from_slice(match self.layer.mode {
                Mode::Plain => &self.layer.bias[columns],
                Mode::Add => &self.with[row * n_out..(row + 1) * n_out][columns],
                Mode::Noise => &x[columns],
            });
            let scale = if self.layer.mode == Mode::Noise { self.with[row] } else { 1.0 };
            for (first, to) in operand.row(index) {
                let x = &x[first..first + to.len()];
                for c in 0..to.len() {
                    to[c] = scale * x[c];
                }
            }
        }
    }

    fn is_silent(&self, part: &Part<'_>) -> bool {
        self.layer.mode != Mode::Noise && part.is_silent(self.step, self.timeline)
    }

    fn finish(&self, part: &mut Part<'_>) {
        match self.layer.mode {
            Mode::Noise => {
                for row in part.rows.clone().filter(|&row| self.with[row] == 0.0) {
                    let from = row * self.layer.n_in;
                    let columns = part.columns.clone();
                    part.sums(row).copy_from_slice(&self.x[from + columns.start..from + columns.end]);
                }
            }
            Mode::Plain | Mode::Add => part.silence(self.step, self.timeline),
        }
    }

    fn scratch_len(&self, _n_rows: usize) -> usize {
        0
    }
}
