//! One voice alone: a vector holds its next samples instead of its neighbours. Each sample goes through the operations that it
//! goes through among others, so it has the same bits; only the filter, whose samples need each other, takes them one by one.

use super::super::group::{Group, Kind, LANES};
use super::super::lanes::Lanes;
use super::super::math::{cosine, noise};
use super::super::step::Step;
use super::source::{Svf, tone_input};
use super::{Piece, Sums, TICK};

/// Samples of a piece, and nothing behind them.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Samples([f32; TICK]);

const NUMBERS: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

#[inline(always)]
pub(super) unsafe fn render<V: Lanes>(group: &mut Group, piece: Piece, table: &Step, sums: &mut Sums) {
    let lane = group.sounding.trailing_zeros() as usize % LANES;
    // SAFETY: the caller has the instruction set of `V`, here and below; samples are whole vectors.
    unsafe {
        let mut samples = match (group.kind, group.is_close) {
            (Kind::Tone, false) => tone::<V, false>(group, lane, piece.len, table),
            (Kind::Tone, true) => tone::<V, true>(group, lane, piece.len, table),
            (Kind::Noise, _) => noises::<V>(group, lane, piece),
            (Kind::Drum | Kind::Partials, _) => drum::<V>(group, lane, piece.len),
        };
        samples.0[piece.len..].fill(0.0);
        let mut levels = Samples([0.0; TICK]);
        let (mut value, slope) = (group.level.value[lane], group.level.slope[lane]);
        for level in &mut levels.0[..piece.len] {
            *level = value;
            value += slope;
        }
        group.level.value[lane] = value;
        let gains = [V::splat(group.left[lane]), V::splat(group.right[lane])];
        let sides = sums.alone();
        for at in (0..piece.len).step_by(V::N) {
            let sample = V::load(&samples.0[at]).mul(V::load(&levels.0[at]));
            let sample = sample.min(V::splat(3.9)).max(V::splat(-3.9));
            for (side, gain) in sides.iter_mut().zip(gains) {
                let sum = side[piece.first + at..][..V::N].as_mut_ptr().cast::<u32>();
                V::store_int(V::add_int(V::load_int(sum), sample.mul(gain).round()), sum);
            }
        }
    }
}

/// The next V::N phases of an oscillator, and how far the next ones are away.
#[inline(always)]
unsafe fn phases<V: Lanes>(group: &Group, which: usize, lane: usize) -> [V::Int; 2] {
    let (phase, stride) = (group.oscillators[which].phase[lane], group.oscillators[which].stride[lane]);
    // SAFETY: as above.
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

#[inline(always)]
unsafe fn tone<V: Lanes, const CLOSE: bool>(group: &mut Group, lane: usize, len: usize, table: &Step) -> Samples {
    let mut samples = Samples([0.0; TICK]);
    // SAFETY: as above.
    unsafe {
        let [mut phase, hop] = phases::<V>(group, 0, lane);
        let [mut saw_phase, saw_hop] = phases::<V>(group, 1, lane);
        let figures = [V::splat(group.period[lane]), V::splat(group.sine[lane]), V::splat(group.saw[lane])];
        for at in (0..len).step_by(V::N) {
            tone_input::<V, CLOSE>(table, [phase, saw_phase], figures).store(&mut samples.0[at]);
            (phase, saw_phase) = (V::add_int(phase, hop), V::add_int(saw_phase, saw_hop));
        }
        let mut svf = Svf::<f32>::load(group, lane);
        for sample in &mut samples.0[..len] {
            [_, *sample] = svf.next(*sample);
        }
        svf.store(group, lane);
    }
    advance(group, 0, lane, len);
    advance(group, 1, lane, len);
    samples
}

#[inline(always)]
unsafe fn noises<V: Lanes>(group: &mut Group, lane: usize, piece: Piece) -> Samples {
    let mut inputs = Samples([0.0; TICK]);
    let (mut bands, mut lows) = (inputs, inputs);
    let first = piece.age.wrapping_sub(group.onset[lane]).wrapping_add(group.seed[lane]);
    // SAFETY: as above.
    unsafe {
        let mut number = V::add_int(V::splat_int(first), V::load_int(NUMBERS.as_ptr()));
        for at in (0..piece.len).step_by(V::N) {
            noise::<V>(number).store(&mut inputs.0[at]);
            number = V::add_int(number, V::splat_int(V::N as u32));
        }
        let mut svf = Svf::<f32>::load(group, lane);
        for at in 0..piece.len {
            [bands.0[at], lows.0[at]] = svf.next(inputs.0[at]);
        }
        svf.store(group, lane);
        let mix = [0, 1, 2].map(|i: usize| V::splat(group.mix[i][lane]));
        for at in (0..piece.len).step_by(V::N) {
            let input = V::load(&inputs.0[at]).mul(mix[0]);
            let sample = V::load(&lows.0[at]).mul_add(mix[2], V::load(&bands.0[at]).mul_add(mix[1], input));
            sample.store(&mut inputs.0[at]);
        }
    }
    inputs
}

#[inline(always)]
unsafe fn drum<V: Lanes>(group: &mut Group, lane: usize, len: usize) -> Samples {
    let mut samples = Samples([0.0; TICK]);
    // SAFETY: as above.
    unsafe {
        let [mut phase, hop] = phases::<V>(group, 0, lane);
        for at in (0..len).step_by(V::N) {
            cosine::<V>(phase).store(&mut samples.0[at]);
            phase = V::add_int(phase, hop);
        }
    }
    advance(group, 0, lane, len);
    samples
}
