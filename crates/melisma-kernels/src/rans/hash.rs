//! The hash of a decoded tile: 32 lanes of u32 per slice, as a warp computes them, folded into 64
//! bits.
//!
//! Word j of a slice's bytes (little-endian, the last one padded with zeros) goes to lane j mod 32:
//! `t = (h ^ word) · 0x9e3779b1; h = t ^ t >> 15`. Every step is a bijection, so a change of one
//! word is always detected.

use super::{LANES, MAX_SLICES};
use crate::Isa;
use crate::device::isa::dispatch;

const LANE_FACTOR: u32 = 0x9e37_79b1;
const FOLD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes that all lanes consume together.
pub(super) const ROUND: usize = 4 * LANES;

/// The lanes of one slice.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Lanes([u32; LANES]);

impl Lanes {
    pub(super) fn new() -> Self {
        Self([0; LANES])
    }

    pub(super) fn words(&self) -> [u32; LANES] {
        self.0
    }

    /// Hashes the next bytes: a multiple of [`ROUND`], except in the last call.
    pub(super) fn update(&mut self, isa: Isa, bytes: &[u8]) {
        let lanes = &mut self.0;
        dispatch!(isa, update(lanes: &mut [u32; LANES], bytes: &[u8]));
    }
}

impl Lanes {
    /// Works like [`Lanes::update`] for two slices at once, whose steps are independent.
    pub(super) fn update_two(lanes: &mut [Self; 2], isa: Isa, bytes: [&[u8]; 2]) {
        let both = bytes[0].len().min(bytes[1].len()) / ROUND * ROUND;
        let ([a, b], [x, y]) = (lanes, bytes);
        let (one, other) = (&mut a.0, &mut b.0);
        let (x_both, y_both) = (&x[..both], &y[..both]);
        dispatch!(isa, both_of(one: &mut [u32; LANES], other: &mut [u32; LANES], x_both: &[u8], y_both: &[u8]));
        a.update(isa, &x[both..]);
        b.update(isa, &y[both..]);
    }
}

#[inline(always)]
fn both_of(one: &mut [u32; LANES], other: &mut [u32; LANES], x: &[u8], y: &[u8]) {
    let (mut a, mut b) = (*one, *other);
    for (x, y) in x.as_chunks::<ROUND>().0.iter().zip(y.as_chunks::<ROUND>().0) {
        take(&mut a, x);
        take(&mut b, y);
    }
    (*one, *other) = (a, b);
}

#[inline(always)]
fn update(lanes: &mut [u32; LANES], bytes: &[u8]) {
    let mut h = *lanes;
    let (rounds, rest) = bytes.as_chunks::<ROUND>();
    for round in rounds {
        take(&mut h, round);
    }
    if !rest.is_empty() {
        let mut last = [0; ROUND];
        last[..rest.len()].copy_from_slice(rest);
        let words = rest.len().div_ceil(4);
        let before = h;
        take(&mut h, &last);
        h[words..].copy_from_slice(&before[words..]);
    }
    *lanes = h;
}

#[inline(always)]
fn take(h: &mut [u32; LANES], round: &[u8; ROUND]) {
    for (h, word) in h.iter_mut().zip(round.as_chunks::<4>().0) {
        let t = (*h ^ u32::from_le_bytes(*word)).wrapping_mul(LANE_FACTOR);
        *h = t ^ (t >> 15);
    }
}

/// Returns the tile's hash: its number and length in bytes, then the lanes of its slices in order.
pub(super) fn fold(number: u64, len: usize, slices: &[Lanes]) -> u64 {
    debug_assert!(slices.len() <= MAX_SLICES);
    let mut hash = step(step(0, number), len as u64);
    for lane in slices.iter().flat_map(|lanes| lanes.0) {
        hash = step(hash, lane.into());
    }
    hash
}

fn step(hash: u64, value: u64) -> u64 {
    let product = (hash ^ value).wrapping_mul(FOLD_FACTOR);
    product ^ product >> 32
}
