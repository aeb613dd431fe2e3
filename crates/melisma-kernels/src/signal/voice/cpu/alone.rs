//! One voice alone: a vector holds its next samples instead of neighbouring voices. Each sample
//! goes through the same operations as in a group, so it has the same bits. Only the filter, whose
//! samples depend on each other, takes them one by one.
//!
//! The inputs of the filter are computed for the whole chunk first: between ticks the filter would
//! stall on its coefficients, a long chain of dependent operations.

use super::super::group::aim::aim_ahead;
use super::super::group::{Group, Kind, LANES};
use super::super::lanes::Lanes;
use super::super::math::{cosine, noise};
use super::super::step::Step;
use super::svf::{Svf, tone_input};
use super::{CHUNK, Piece, Stretch, TICK};

/// Samples of a chunk, with room for a vector after the last.
type Samples = [f32; CHUNK + LANES];

const NUMBERS: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Pieces of a voice that wait for their filter.
#[repr(C, align(64))]
pub(super) struct FilterQueue {
    samples: Samples,
    levels: Samples,
    /// The filter's coefficients and slopes for each tick, and the number of samples that use them.
    parts: [([f32; 3], [f32; 3], usize); CHUNK / TICK + 1],
    n_parts: usize,
    lane: usize,
    gains: [f32; 2],
    /// Their offset in the chunk, and the number of samples.
    first: usize,
    len: usize,
}

impl FilterQueue {
    pub(super) fn new() -> Self {
        Self {
            samples: [0.0; CHUNK + LANES],
            levels: [0.0; CHUNK + LANES],
            parts: [([0.0; 3], [0.0; 3], 0); CHUNK / TICK + 1],
            n_parts: 0,
            lane: 0,
            gains: [0.0; 2],
            first: 0,
            len: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Computes the next piece up to its filter and appends it.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn push<V: Lanes>(&mut self, group: &mut Group, piece: Piece, table: &Step) {
        let lane = group.sounding.trailing_zeros() as usize % LANES;
        if self.len == 0 {
            (self.first, self.lane, self.n_parts) = (piece.first, lane, 0);
            self.gains = [group.left[lane], group.right[lane]];
        }
        let is_tick = piece.age.is_multiple_of(TICK as u32);
        if is_tick || self.n_parts == 0 {
            let [a, b, c] = &group.filter;
            let value = [a.value[lane], b.value[lane], c.value[lane]];
            self.parts[self.n_parts] = (value, [a.slope[lane], b.slope[lane], c.slope[lane]], 0);
            self.n_parts += 1;
        }
        self.parts[self.n_parts - 1].2 += piece.len;
        let (mut value, slope) = (group.level.value[lane], group.level.slope[lane]);
        for level in &mut self.levels[self.len..self.len + piece.len] {
            *level = value;
            value += slope;
        }
        group.level.value[lane] = value;
        let samples = &mut self.samples[self.len..];
        // SAFETY: the caller guarantees the instruction set of `V`; samples have room for whole vectors.
        unsafe {
            match (group.kind, group.is_close) {
                (Kind::Tone, false) => tone::<V, false>(group, lane, &mut samples[..piece.len + LANES], table),
                (Kind::Tone, true) => tone::<V, true>(group, lane, &mut samples[..piece.len + LANES], table),
                (Kind::Noise, _) => noises::<V>(group, lane, piece, samples),
                (Kind::Drum | Kind::Partials, _) => drum::<V>(group, lane, &mut samples[..piece.len + LANES]),
            }
        }
        self.len += piece.len;
    }

    /// Filters the pending pieces and adds them to `sides`, left and right of the chunk.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn finish<V: Lanes>(&mut self, group: &mut Group, sides: &mut [[i32; CHUNK + LANES]; 2]) {
        let len = std::mem::take(&mut self.len);
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            match group.kind {
                Kind::Tone => self.filter(group, len),
                Kind::Noise => self.filter_noise::<V>(group, len),
                Kind::Drum | Kind::Partials => {}
            }
            self.samples[len..len + LANES].fill(0.0);
            let gains = [V::splat(self.gains[0]), V::splat(self.gains[1])];
            for at in (0..len).step_by(V::N) {
                let sample = V::load(&self.samples[at]).mul(V::load(&self.levels[at]));
                let sample = sample.min(V::splat(3.9)).max(V::splat(-3.9));
                for (side, gain) in sides.iter_mut().zip(gains) {
                    let sum = side[self.first + at..][..V::N].as_mut_ptr().cast::<u32>();
                    V::store_int(V::add_int(V::load_int(sum), sample.mul(gain).round()), sum);
                }
            }
        }
    }

    /// Filters the samples in place with the low-pass.
    ///
    /// # Safety
    /// The machine has the caller's instruction set.
    #[inline(always)]
    unsafe fn filter(&mut self, group: &mut Group, len: usize) {
        // SAFETY: a single lane needs no instruction set but that of its caller.
        unsafe {
            let mut svf = Svf::<f32>::load(group, self.lane);
            let mut rest = &mut self.samples[..len];
            for (value, slope, n) in &self.parts[..self.n_parts] {
                svf.set(*value, *slope);
                let (now, later) = rest.split_at_mut(*n);
                for sample in now {
                    [_, *sample] = svf.next(*sample);
                }
                rest = later;
            }
            svf.store(group, self.lane);
        }
    }

    /// Mixes noise, its band-pass and its low-pass.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn filter_noise<V: Lanes>(&mut self, group: &mut Group, len: usize) {
        let mut bands: Samples = [0.0; CHUNK + LANES];
        let mut lows = bands;
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let mut svf = Svf::<f32>::load(group, self.lane);
            let mut at = 0;
            for (value, slope, n) in &self.parts[..self.n_parts] {
                svf.set(*value, *slope);
                for i in at..at + n {
                    [bands[i], lows[i]] = svf.next(self.samples[i]);
                }
                at += n;
            }
            svf.store(group, self.lane);
            let mix = [0, 1, 2].map(|i: usize| V::splat(group.mix[i][self.lane]));
            for at in (0..len).step_by(V::N) {
                let input = V::load(&self.samples[at]).mul(mix[0]);
                let sample = V::load(&lows[at]).mul_add(mix[2], V::load(&bands[at]).mul_add(mix[1], input));
                sample.store(&mut self.samples[at]);
            }
        }
    }
}

/// Renders a stretch of a filtered voice in which no segment ends: values at ticks are evaluated
/// for all ticks at once.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn steady<V: Lanes>(
    group: &mut Group,
    stretch: Stretch<'_>,
    table: &Step,
    (ahead, sides): (&mut FilterQueue, &mut [[i32; CHUNK + LANES]; 2]),
) {
    const TICK_LEN: u64 = TICK as u64;
    let lane = group.sounding.trailing_zeros() as usize % LANES;
    let end = stretch.now + stretch.len as u64;
    let first_tick = stretch.now.next_multiple_of(TICK_LEN);
    let controls = &stretch.controls[((first_tick - stretch.now) as usize).min(1)..];
    let n_ticks = end.saturating_sub(first_tick).div_ceil(TICK_LEN) as usize;
    // SAFETY: the caller guarantees the instruction set of `V`; a chunk has fewer ticks than the narrowest vector has lanes.
    unsafe {
        let targets = aim_ahead::<V>(group, lane, first_tick, &controls[..n_ticks]);
        let (mut now, mut tick) = (stretch.now, 0);
        while now < end {
            if now.is_multiple_of(TICK_LEN) {
                group.begin_tick(lane, targets.level[tick], targets.filter.map(|row| row[tick]));
                tick += 1;
            }
            let next = end.min((now / TICK_LEN + 1) * TICK_LEN);
            let piece = Piece { first: (now - stretch.now) as usize, len: (next - now) as usize, age: now as u32 };
            ahead.push::<V>(group, piece, table);
            now = next;
        }
        ahead.finish::<V>(group, sides);
    }
}

/// Returns the next V::N phases of an oscillator, and the distance to the following ones.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
unsafe fn phases<V: Lanes>(group: &Group, which: usize, lane: usize) -> [V::Int; 2] {
    let (phase, stride) = (group.oscillators[which].phase[lane], group.oscillators[which].stride[lane]);
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let steps = V::mul_int(V::splat_int(stride), V::load_int(NUMBERS.as_ptr()));
        [V::add_int(V::splat_int(phase), steps), V::splat_int(stride.wrapping_mul(V::N as u32))]
    }
}

#[inline(always)]
fn advance(group: &mut Group, which: usize, lane: usize, len: usize) {
    let oscillator = &mut group.oscillators[which];
    let way = oscillator.stride[lane].wrapping_mul(len as u32);
    oscillator.phase[lane] = oscillator.phase[lane].wrapping_add(way);
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
unsafe fn tone<V: Lanes, const CLOSE: bool>(group: &mut Group, lane: usize, samples: &mut [f32], table: &Step) {
    let len = samples.len() - LANES;
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let [mut phase, hop] = phases::<V>(group, 0, lane);
        let [mut saw_phase, saw_hop] = phases::<V>(group, 1, lane);
        let figures = [V::splat(group.period[lane]), V::splat(group.sine[lane]), V::splat(group.saw[lane])];
        for at in (0..len).step_by(V::N) {
            tone_input::<V, CLOSE>(table, [phase, saw_phase], figures).store(&mut samples[at]);
            (phase, saw_phase) = (V::add_int(phase, hop), V::add_int(saw_phase, saw_hop));
        }
    }
    advance(group, 0, lane, len);
    advance(group, 1, lane, len);
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
unsafe fn noises<V: Lanes>(group: &Group, lane: usize, piece: Piece, samples: &mut [f32]) {
    let first = piece.age.wrapping_sub(group.onset[lane]).wrapping_add(group.seed[lane]);
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let mut number = V::add_int(V::splat_int(first), V::load_int(NUMBERS.as_ptr()));
        for at in (0..piece.len).step_by(V::N) {
            noise::<V>(number).store(&mut samples[at]);
            number = V::add_int(number, V::splat_int(V::N as u32));
        }
    }
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
unsafe fn drum<V: Lanes>(group: &mut Group, lane: usize, samples: &mut [f32]) {
    let len = samples.len() - LANES;
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let [mut phase, hop] = phases::<V>(group, 0, lane);
        for at in (0..len).step_by(V::N) {
            cosine::<V>(phase).store(&mut samples[at]);
            phase = V::add_int(phase, hop);
        }
    }
    advance(group, 0, lane, len);
}
