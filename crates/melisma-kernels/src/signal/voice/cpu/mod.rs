//! The inner loops: a tick or less of all lanes of a vector, or of one voice alone.
//!
//! # Why does a single voice take another path?
//!
//! Vectors hold sixteen voices, or sixteen samples of a single one. A sample goes through the same
//! operations either way, so it has the same bits, and a single note costs less. With many voices,
//! four samples are computed side by side before the filter takes them in order, because a
//! processor does not look far enough ahead to do that itself. Vector code avoids closures: one
//! that is not inlined loses its caller's instruction set and runs twenty times slower without a
//! warning.

mod alone;
mod source;
mod sums;
mod svf;

use super::group::{Group, Kind, LANES, aim};
use super::lanes::Lanes;
use super::step::table;
use super::{CHUNK, Control, TICK};
use crate::device::isa::{Isa, Level};

pub(super) use sums::Sums;

/// A stretch of time: `len` samples from `now`, at most a chunk, with the controls of its ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'a> {
    pub(super) now: u64,
    pub(super) len: usize,
    pub(super) controls: &'a [Control],
}

/// Renders one group into `sums`.
pub(super) fn render(isa: Isa, group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
    debug_assert!(stretch.len <= CHUNK);
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::avx512(group, stretch, sums) },
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::avx2(group, stretch, sums) },
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "aarch64")]
        Level::Neon => unsafe { pieces::<crate::device::vector::Neon>(group, stretch, sums) },
        // SAFETY: a single lane needs no instruction set.
        _ => unsafe { pieces::<f32>(group, stretch, sums) },
    }
}

/// Renders one voice at a time with scalar operations: the baseline for batching.
pub(super) fn render_singly(isa: Isa, group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx2 => unsafe { x86::single(group, stretch, sums) },
        // SAFETY: a single lane needs no instruction set.
        _ => unsafe { pieces::<f32>(group, stretch, sums) },
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Group, Kind, Stretch, Sums, pieces};

    /// # Safety
    /// The machine has the instruction set, and the sums have room for the stretch.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    pub(super) unsafe fn avx512(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
        // SAFETY: the caller guarantees the instruction set, here and below.
        unsafe {
            let is_alone = group.sounding.is_power_of_two() && group.kind != Kind::Partials;
            if group.sounding < 1 << 8 && !is_alone {
                pieces::<__m256>(group, stretch, sums)
            } else {
                pieces::<__m512>(group, stretch, sums)
            }
        }
    }

    /// # Safety
    /// The machine has the instruction set, and the sums have room for the stretch.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
        // SAFETY: the caller guarantees the instruction set, and the group is whole.
        unsafe { pieces::<__m256>(group, stretch, sums) }
    }

    /// # Safety
    /// The machine has the instruction set, and the sums have room for the stretch.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn single(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
        // SAFETY: the caller guarantees the instruction set, and the group is whole.
        unsafe { pieces::<f32>(group, stretch, sums) }
    }
}

/// Samples of a stretch between two evaluations.
#[derive(Clone, Copy)]
struct Piece {
    /// Offset of the first sample in the stretch.
    first: usize,
    len: usize,
    /// The first sample's number, low word.
    age: u32,
}

/// Cuts a stretch at ticks and at the ends of envelope segments.
///
/// # Safety
/// The machine has the instruction set, and the sums have room for the stretch.
#[inline(always)]
unsafe fn pieces<V: Lanes>(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
    const TICK_LEN: u64 = TICK as u64;
    let end = stretch.now + stretch.len as u64;
    let first_tick = stretch.now / TICK_LEN;
    let table = table();
    if V::N > 1 && group.sounding.is_power_of_two() && is_known(group, end) {
        // SAFETY: the caller guarantees the instruction set of `V`.
        return unsafe { alone::steady::<V>(group, stretch, table, sums.alone()) };
    }
    let is_known = V::N > 1 && is_known(group, end);
    let known_from = stretch.now.next_multiple_of(TICK_LEN);
    if is_known {
        let controls = &stretch.controls[(known_from / TICK_LEN - first_tick) as usize..];
        let n_ticks = end.saturating_sub(known_from).div_ceil(TICK_LEN) as usize;
        for lane in lanes::<V>(group) {
            // SAFETY: the caller guarantees the instruction set of `V`; the lanes belong to the group.
            unsafe { aim::find_ends::<V>(group, lane, known_from, &controls[..n_ticks], &mut sums.ends) };
        }
    }
    let mut now = stretch.now;
    while now < end {
        if now == group.boundary {
            group.turn(now);
            if group.sounding == 0 {
                break;
            }
        }
        let tick_end = (now / TICK_LEN + 1) * TICK_LEN;
        // SAFETY: the caller guarantees the instruction set of `V`; the lanes belong to the group, and the piece is inside the chunk.
        unsafe {
            if now.is_multiple_of(TICK_LEN) && is_known {
                let ends = &sums.ends.0[((now - known_from) / TICK_LEN) as usize];
                for lane in lanes::<V>(group) {
                    aim::aim_at::<V>(group, lane, ends);
                    aim::begin_tick::<V>(group, lane);
                }
            } else if now.is_multiple_of(TICK_LEN) {
                if group.boundary < tick_end {
                    group.measure_lines(now);
                } else {
                    group.line_len = [TICK as f32; LANES];
                }
                let control = stretch.controls[(now / TICK_LEN - first_tick) as usize];
                for lane in lanes::<V>(group) {
                    aim::aim_level::<V>(group, lane, now as u32);
                    aim::aim_slow::<V>(group, lane, now, control);
                    aim::begin_tick::<V>(group, lane);
                }
            }
            let next = end.min(tick_end).min(group.boundary);
            let piece = Piece { first: (now - stretch.now) as usize, len: (next - now) as usize, age: now as u32 };
            if V::N > 1 && group.sounding.is_power_of_two() && group.kind != Kind::Partials {
                sums.ahead.push::<V>(group, piece, table);
            } else {
                for lane in lanes::<V>(group) {
                    match (group.kind, group.is_close) {
                        (Kind::Tone, false) => source::tone::<V, false>(group, lane, piece, table, sums),
                        (Kind::Tone, true) => source::tone::<V, true>(group, lane, piece, table, sums),
                        (Kind::Partials, _) => source::partials::<V>(group, lane, piece, sums),
                        (Kind::Drum, _) => source::drum::<V>(group, lane, piece, sums),
                        (Kind::Noise, _) => source::noises::<V>(group, lane, piece, sums),
                    }
                }
            }
            now = next;
        }
    }
    if !sums.ahead.is_empty() {
        let (ahead, sides) = sums.alone();
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe { ahead.finish::<V>(group, sides) };
    }
}

/// Returns whether no segment ends in the ticks before sample `end`. A filtered group can then
/// evaluate everything ahead of time: a long chain of operations that would otherwise stall every
/// tick.
#[inline(always)]
fn is_known(group: &Group, end: u64) -> bool {
    matches!(group.kind, Kind::Tone | Kind::Noise) && group.boundary >= end.next_multiple_of(TICK as u64)
}

/// Returns the first lanes of the vectors in which at least one lane sounds.
#[inline(always)]
fn lanes<V: Lanes>(group: &Group) -> impl Iterator<Item = usize> + use<V> {
    let sounding = group.sounding;
    let all = if V::N == LANES { u32::MAX } else { (1 << V::N) - 1 };
    (0..LANES).step_by(V::N).filter(move |lane| sounding >> lane & all != 0)
}
