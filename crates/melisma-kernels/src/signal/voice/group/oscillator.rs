//! Phases of oscillators.

use super::super::TICK;
use super::{LANES, Words};

/// Phases: 64 bits at the start of a tick; 32 suffice inside it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::signal::voice) struct Oscillator {
    pub(in crate::signal::voice) phase: Words,
    /// The increment per sample.
    pub(in crate::signal::voice) stride: Words,
    /// The phase at the start of the tick, high and low words.
    pub(in crate::signal::voice) anchor: [Words; 2],
    /// The increment per tick.
    pub(in crate::signal::voice) hop: [Words; 2],
}

impl Oscillator {
    pub(super) const STILL: Self =
        Self { phase: [0; LANES], stride: [0; LANES], anchor: [[0; LANES]; 2], hop: [[0; LANES]; 2] };

    fn wide(words: &[Words; 2], lane: usize) -> u64 {
        u64::from(words[0][lane]) << 32 | u64::from(words[1][lane])
    }

    fn set_wide(words: &mut [Words; 2], lane: usize, wide: u64) {
        (words[0][lane], words[1][lane]) = ((wide >> 32) as u32, wide as u32);
    }

    /// Sets the phase to `phase` at sample `now`.
    pub(in crate::signal::voice) fn start(&mut self, lane: usize, phase: u64, increment: u64, now: u64) {
        let before = match now % TICK as u64 {
            // The tick that is about to begin adds a hop.
            0 => TICK as u64,
            inside => inside,
        };
        Self::set_wide(&mut self.hop, lane, increment.wrapping_mul(TICK as u64));
        self.stride[lane] = (increment.wrapping_add(1 << 31) >> 32) as u32;
        let anchor = phase.wrapping_sub(increment.wrapping_mul(before));
        Self::set_wide(&mut self.anchor, lane, anchor);
        self.phase[lane] = ((anchor >> 32) as u32).wrapping_add(self.stride[lane].wrapping_mul(before as u32));
    }

    /// Sets the 32-bit phase from the 64-bit one.
    #[inline(always)]
    pub(super) fn begin_tick(&mut self, lane: usize) {
        let anchor = Self::wide(&self.anchor, lane).wrapping_add(Self::wide(&self.hop, lane));
        Self::set_wide(&mut self.anchor, lane, anchor);
        self.phase[lane] = (anchor >> 32) as u32;
    }

    /// Changes the increment to `increment` from sample `now` on.
    pub(in crate::signal::voice) fn retune(&mut self, lane: usize, increment: u64, now: u64) {
        let is_tick = now.is_multiple_of(TICK as u64);
        let (anchor, hop) = (Self::wide(&self.anchor, lane), Self::wide(&self.hop, lane));
        let held = self.phase[lane];
        let phase = if is_tick { anchor.wrapping_add(hop) } else { u64::from(held) << 32 };
        self.start(lane, phase, increment, now);
        if !is_tick {
            self.phase[lane] = held;
        }
    }

    /// Moves on as if it had begun at sample 0 and run until `now`, a multiple of [`TICK`].
    #[cfg(test)]
    pub(in crate::signal::voice) fn jump(&mut self, now: u64) {
        for lane in 0..LANES {
            let way = Self::wide(&self.hop, lane).wrapping_mul(now / TICK as u64);
            let anchor = Self::wide(&self.anchor, lane).wrapping_add(way);
            Self::set_wide(&mut self.anchor, lane, anchor);
        }
    }
}
