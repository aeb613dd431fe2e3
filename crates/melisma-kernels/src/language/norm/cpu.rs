//! One task for each row.

use super::Norm;
use crate::device::isa::{Isa, dispatch};
use crate::language::lanes::square;
use crate::queue::CpuQueue;

#[derive(Debug)]
pub(super) struct Prepared {
    isa: Isa,
    weight: Vec<f32>,
    epsilon: f32,
}

impl Prepared {
    pub(super) fn new(norm: &Norm<'_>, isa: Isa) -> Self {
        Self { isa, weight: norm.floats(), epsilon: norm.epsilon }
    }

    pub(super) fn run(&self, queue: &CpuQueue, x: &[f32], y: &mut [f32]) {
        let n = self.weight.len();
        queue.run_in_parts(y, n, |first, y| {
            let x = &x[first..first + n];
            let scale = 1.0 / (square(self.isa, x) / n as f32 + self.epsilon).sqrt();
            let weight = &self.weight[..];
            dispatch!(self.isa, apply(scale: f32, x: &[f32], weight: &[f32], y: &mut [f32]));
        });
    }
}

#[inline(always)]
fn apply(scale: f32, x: &[f32], weight: &[f32], y: &mut [f32]) {
    for ((y, &x), &weight) in y.iter_mut().zip(x).zip(weight) {
        *y = x * scale * weight;
    }
}
