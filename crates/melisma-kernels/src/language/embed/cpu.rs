//! One task for each row.

use crate::language::weight::{Weight, with_values};
use crate::matmul::{self, Scalar};
use crate::queue::CpuQueue;

pub(super) fn run(queue: &CpuQueue, weight: &Weight, tokens: &[u32], y: &mut [f32]) {
    let n_channels = weight.shape()[1];
    with_values!(weight, values => rows(queue, values, (tokens, n_channels), y));
}

fn rows<T: Scalar>(queue: &CpuQueue, values: &[T], (tokens, n_channels): (&[u32], usize), y: &mut [f32]) {
    queue.run_in_parts(y, n_channels, |first, y| {
        let token = tokens[first / n_channels] as usize;
        matmul::load(&values[token * n_channels..][..n_channels], y);
    });
}
