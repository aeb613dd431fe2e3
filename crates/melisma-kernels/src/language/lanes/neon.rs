//! Vectors of eight floats of NEON.

use std::arch::aarch64::*;

use half::{bf16, f16};

use super::chains::{Chains, chains};
use super::{Stored, Tile, run};
use crate::device::vector::neon::{Pair, registers};
use crate::device::vector::{Float, Neon, Vector};

chains!(Neon, 2, widen_f16, widen_bf16, fold);

registers! {
    widen_f16(from: *const f16) -> Neon = {
        let halves = vld1q_u16(from.cast());
        let [low, high] = [vget_low_u16(halves), vget_high_u16(halves)].map(|half| vreinterpret_f16_u16(half));
        Pair(vcvt_f32_f16(low), vcvt_f32_f16(high))
    };
    widen_bf16(from: *const bf16) -> Neon = {
        let halves = vld1q_u16(from.cast());
        let [low, high] = [vget_low_u16(halves), vget_high_u16(halves)].map(|half| vshll_n_u16::<16>(half));
        Pair(vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high))
    };
    fold_one(chains: [Neon; 2]) -> f32 = {
        let [Pair(a, b), Pair(c, d)] = chains;
        let four = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
        vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)))
    };
}

/// # Safety
/// None.
#[inline(always)]
unsafe fn fold<const N: usize>(all: [[Neon; 2]; N]) -> [f32; N] {
    // SAFETY: registers need no promise.
    all.map(|chains| unsafe { fold_one(chains) })
}

/// # Safety
/// As [`super::Run`].
pub(super) unsafe fn neon<T: Stored, const OUTPUTS: usize, const ROWS: usize>(tile: Tile<T>) {
    // SAFETY: the caller's promise.
    unsafe { run::<[Neon; 2], T, OUTPUTS, ROWS>(tile) }
}
