//! A loop that the compiler vectorises, one task for each row.

use crate::device::isa::{Isa, dispatch};
use crate::language::curve::silu;
use crate::queue::CpuQueue;

pub(super) fn run(queue: &CpuQueue, (isa, n_inner): (Isa, usize), x: &[f32], y: &mut [f32]) {
    queue.run_in_parts(y, n_inner, |first, y| {
        let (gate, up) = x[2 * first..][..2 * n_inner].split_at(n_inner);
        dispatch!(isa, apply(gate: &[f32], up: &[f32], y: &mut [f32]));
    });
}

#[inline(always)]
fn apply(gate: &[f32], up: &[f32], y: &mut [f32]) {
    for ((y, &gate), &up) in y.iter_mut().zip(gate).zip(up) {
        *y = silu(gate) * up;
    }
}
