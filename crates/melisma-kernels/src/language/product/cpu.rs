//! Threads share the outputs; a task reads its weights once for every few rows, from L2 after the first time.

use std::ops::Range;

use super::Finish;
use crate::language::lanes::{Stored, Sums, TILE_OUTPUTS};
use crate::language::weight::{Weight, with_values};
use crate::queue::{CpuQueue, Disjoint};
use crate::{Isa, Result};

/// Products per task at least: less is not worth another thread.
const LEAST_WORK: usize = 1 << 14;
/// Weights per task at most, so that they stay in L2 for all rows.
const MAX_WEIGHTS: usize = 1 << 17;
/// Tasks per thread, so that a slow thread takes fewer.
const TASKS_PER_THREAD: usize = 4;

#[derive(Debug)]
pub(super) struct Prepared {
    weights: Vec<Weight>,
}

/// The outputs of a task, and the rows of all.
struct Task<'a> {
    isa: Isa,
    k: usize,
    x: &'a [f32],
    finish: Finish,
    y: &'a Disjoint<'a, f32>,
    /// Outputs of the run.
    outputs: Range<usize>,
}

impl Prepared {
    pub(super) fn new(weights: &[&Weight]) -> Result<Self> {
        weights.iter().try_for_each(|weight| weight.check_host("product"))?;
        Ok(Self { weights: weights.iter().map(|&weight| weight.clone()).collect() })
    }

    /// Returns the bytes of the weights of some outputs.
    pub(super) fn bytes(&self, outputs: &Range<usize>, k: usize) -> usize {
        self.parts(outputs.clone()).map(|(weight, _, part)| part.len() * k * weight.dtype().size()).sum()
    }

    /// Returns each matrix that has some of `outputs`, the number of its first output, and those outputs.
    fn parts(&self, outputs: Range<usize>) -> impl Iterator<Item = (&Weight, usize, Range<usize>)> {
        self.weights
            .iter()
            .scan(0, |end, weight| {
                let base = *end;
                *end += weight.shape()[0];
                Some((weight, base..*end))
            })
            .filter_map(move |(weight, own)| {
                let part = outputs.start.max(own.start)..outputs.end.min(own.end);
                (!part.is_empty()).then_some((weight, own.start, part))
            })
    }

    pub(super) fn run(&self, queue: &CpuQueue, (outputs, finish): (Range<usize>, Finish), x: &[f32], y: &mut [f32]) {
        if x.is_empty() || outputs.is_empty() {
            return;
        }
        let k = self.weights[0].shape()[1];
        let per_thread = outputs.len().div_ceil(queue.cpu().threads * TASKS_PER_THREAD);
        let len = per_thread.min(MAX_WEIGHTS / k).max(LEAST_WORK.div_ceil(x.len())).next_multiple_of(TILE_OUTPUTS);
        let y = Disjoint::new(y);
        let task = Task { isa: queue.cpu().isa, k, x, finish, y: &y, outputs: outputs.clone() };
        queue.run(outputs.len().div_ceil(len), |index| {
            let first = outputs.start + index * len;
            let block = first..outputs.end.min(first + len);
            for (weight, base, part) in self.parts(block) {
                with_values!(weight, values => task.write(values, base, part));
            }
        });
    }
}

impl Task<'_> {
    /// Computes the outputs `part` from a matrix whose first output is number `base`.
    fn write<T: Stored>(&self, values: &[T], base: usize, part: Range<usize>) {
        let Self { isa, k, x, finish, ref outputs, .. } = *self;
        let w = &values[(part.start - base) * k..(part.end - base) * k];
        // SAFETY: `y` has a row of all outputs for each row of x, and every output belongs to one task.
        unsafe {
            let y = self.y.pointer(part.start - outputs.start);
            Sums { k, w, x, finish, ahead: None }.write(isa, y, outputs.len());
        }
    }
}
