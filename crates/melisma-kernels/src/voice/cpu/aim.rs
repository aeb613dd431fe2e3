//! What is evaluated where a tick begins: lines of all that moves slowly, and phases.

use super::super::group::{Group, Kind, Line};
use super::super::lanes::Lanes;
use super::super::math::{cosine, exp2, filter, harmonics};
use super::super::{Control, TICK};

/// Oscillators take the phase that 64 bits have kept.
#[inline(always)]
pub(super) unsafe fn begin_tick<V: Lanes>(group: &mut Group, lane: usize) {
    let n = match group.kind {
        Kind::Tone => 2,
        Kind::Partials => 1,
        Kind::Drum | Kind::Noise => 0,
    };
    for oscillator in &mut group.oscillators[..n] {
        // SAFETY: the caller has the instruction set of `V`, and V::N lanes from `lane` are the group's.
        unsafe {
            let [high, low] = [&oscillator.anchor[0][lane], &oscillator.anchor[1][lane]].map(|word| V::load_int(word));
            let hop = [&oscillator.hop[0][lane], &oscillator.hop[1][lane]].map(|word| V::load_int(word));
            let [high, low] = V::add_wide([high, low], hop);
            V::store_int(high, &mut oscillator.anchor[0][lane]);
            V::store_int(low, &mut oscillator.anchor[1][lane]);
            V::store_int(high, &mut oscillator.phase[lane]);
        }
    }
}

/// At `now`, where a tick or a voice begins: lines toward the tick's end for all but the level.
#[inline(always)]
pub(in crate::voice) unsafe fn aim_slow<V: Lanes>(group: &mut Group, lane: usize, now: u64, control: Control) {
    let tick = TICK as u64;
    let n = (tick - now % tick) as f32;
    let end = (now as u32).wrapping_add(n as u32);
    // SAFETY: the caller has the instruction set of `V`, and V::N lanes from `lane` are the group's; here and below.
    unsafe {
        match group.kind {
            Kind::Tone | Kind::Noise => {
                let targets = coefficients::<V>(group, lane, end, control);
                for (line, target) in group.filter.iter_mut().zip(targets) {
                    aim_line(line, lane, target, V::splat(1.0 / n));
                }
            }
            Kind::Partials => {
                let age = V::to_float(V::sub_int(V::splat_int(end), V::load_int(&group.onset[lane])));
                let level = |k: usize| {
                    let rate = V::load(&group.partial_rates[k][lane]);
                    let fall = rate.neg_mul_add(age, V::splat(0.0)).min(V::splat(0.0));
                    V::load(&group.partial_levels[k][lane]).mul(exp2(fall))
                };
                let targets = harmonics(std::array::from_fn(level));
                for (line, target) in group.partials.iter_mut().zip(targets) {
                    aim_line(line, lane, target, V::splat(1.0 / n));
                }
            }
            Kind::Drum => aim_drum::<V>(group, lane, end, n),
        }
    }
}

#[inline(always)]
unsafe fn aim_line<V: Lanes>(line: &mut Line, lane: usize, target: V, inverse: V) {
    // SAFETY: as above.
    unsafe {
        let value = V::load(&line.target[lane]);
        value.store(&mut line.value[lane]);
        target.store(&mut line.target[lane]);
        target.sub(value).mul(inverse).store(&mut line.slope[lane]);
    }
}

/// Lines of the level, which may be shorter than the tick where a segment ends.
#[inline(always)]
pub(in crate::voice) unsafe fn aim_level<V: Lanes>(group: &mut Group, lane: usize, now: u32) {
    // SAFETY: as above.
    unsafe {
        let n = V::load(&group.line_len[lane]);
        let age = V::to_float(V::sub_int(V::splat_int(now), V::load_int(&group.segment[lane]))).add(n);
        let fall = exp2(V::load(&group.rate[lane]).neg_mul_add(age, V::splat(0.0)).min(V::splat(0.0)));
        let target = V::load(&group.scale[lane]).mul_add(fall, V::load(&group.base[lane]));
        aim_line(&mut group.level, lane, target, V::splat(1.0).div(n));
    }
}

/// The filter's coefficients at the sample `when`.
#[inline(always)]
pub(in crate::voice) unsafe fn coefficients<V: Lanes>(
    group: &Group,
    lane: usize,
    when: u32,
    control: Control,
) -> [V; 3] {
    // SAFETY: as above.
    unsafe {
        let samples = V::sub_int(V::splat_int(when), V::load_int(&group.onset[lane]));
        let fall = V::load(&group.sweep_rate[lane]).neg_mul_add(V::to_float(samples), V::splat(0.0)).min(V::splat(0.0));
        let octaves = V::load(&group.octaves[lane]).add(V::splat(control.brightness));
        let octaves = V::load(&group.sweep[lane]).mul_add(exp2(fall), octaves);
        let phase = V::mul_int(samples, V::load_int(&group.lfo_increment[lane]));
        let wave = cosine::<V>(V::add_int(phase, V::load_int(&group.lfo_phase[lane])));
        let depth = V::load(&group.lfo_depth[lane]).mul(V::splat(control.motion));
        filter(wave.mul_add(depth, octaves), V::load(&group.damping[lane]))
    }
}

#[inline(always)]
unsafe fn aim_drum<V: Lanes>(group: &mut Group, lane: usize, end: u32, n: f32) {
    // SAFETY: as above.
    unsafe {
        let samples = V::sub_int(V::splat_int(end), V::load_int(&group.onset[lane]));
        let fall = V::load(&group.drop_rate[lane]).neg_mul_add(V::to_float(samples), V::splat(0.0)).min(V::splat(0.0));
        let turns = V::load(&group.drop[lane]).mul(V::splat(1.0).sub(exp2(fall)));
        let part = turns.sub(V::to_float(turns.round()));
        let part = V::shift_left::<2>(part.mul(V::splat((1u32 << 30) as f32)).round());
        let steady = V::mul_int(samples, V::load_int(&group.drum_increment[lane]));
        let target = V::add_int(V::add_int(steady, part), V::splat_int(3 << 30));
        let phase = V::load_int(&group.drum_target[lane]);
        let increment = V::to_float(V::sub_int(target, phase)).div(V::splat(n)).round();
        V::store_int(phase, &mut group.oscillators[0].phase[lane]);
        V::store_int(target, &mut group.drum_target[lane]);
        V::store_int(increment, &mut group.oscillators[0].stride[lane]);
    }
}
