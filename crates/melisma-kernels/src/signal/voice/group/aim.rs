//! Evaluation at the start of each tick: the lines of slow parameters, and the phases.

use super::super::lanes::Lanes;
use super::super::math::{cosine, exp2, filter, harmonics};
use super::super::sound::N_PARTIALS;
use super::super::{CHUNK, Control, TICK};
use super::{Group, Kind, LANES, Line};

/// Sets the 32-bit phases of the oscillators from the 64-bit ones.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn begin_tick<V: Lanes>(group: &mut Group, lane: usize) {
    let n = match group.kind {
        Kind::Tone => 2,
        Kind::Partials => 1,
        Kind::Drum | Kind::Noise => 0,
    };
    for oscillator in &mut group.oscillators[..n] {
        // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
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

/// Sets the lines toward the tick's end for everything except the level, at `now`, where a tick or
/// a voice begins.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn aim_slow<V: Lanes>(group: &mut Group, lane: usize, now: u64, control: Control) {
    let tick = TICK as u64;
    let n = (tick - now % tick) as f32;
    let end = (now as u32).wrapping_add(n as u32);
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
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
                let mut levels = [V::splat(0.0); N_PARTIALS];
                for (k, level) in levels.iter_mut().enumerate() {
                    let rate = V::load(&group.partial_rates[k][lane]);
                    let fall = rate.neg_mul_add(age, V::splat(0.0)).min(V::splat(0.0));
                    *level = V::load(&group.partial_levels[k][lane]).mul(exp2(fall));
                }
                let targets = harmonics(levels);
                for (line, target) in group.partials.iter_mut().zip(targets) {
                    aim_line(line, lane, target, V::splat(1.0 / n));
                }
            }
            Kind::Drum => aim_drum::<V>(group, lane, end, n),
        }
    }
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
unsafe fn aim_line<V: Lanes>(line: &mut Line, lane: usize, target: V, inverse: V) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let value = V::load(&line.target[lane]);
        value.store(&mut line.value[lane]);
        target.store(&mut line.target[lane]);
        target.sub(value).mul(inverse).store(&mut line.slope[lane]);
    }
}

/// The end values of the lines of all lanes, tick by tick: those of the level, then those of the
/// filter.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::signal::voice) struct Ends(pub(in crate::signal::voice) [[[f32; LANES]; 4]; CHUNK / TICK]);

/// Computes the end values for the ticks starting at `now` with these `controls`, as [`aim_level`]
/// and [`aim_slow`] do when no segment ends; the ticks are independent of each other.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn find_ends<V: Lanes>(
    group: &Group,
    lane: usize,
    now: u64,
    controls: &[Control],
    ends: &mut Ends,
) {
    for ((tick, control), ends) in controls.iter().enumerate().zip(&mut ends.0) {
        let start = (now as u32).wrapping_add((tick * TICK) as u32);
        // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
        unsafe {
            let age = V::to_float(V::sub_int(V::splat_int(start), V::load_int(&group.segment[lane])));
            let age = age.add(V::splat(TICK as f32));
            let [base, scale, rate] =
                [V::load(&group.base[lane]), V::load(&group.scale[lane]), V::load(&group.rate[lane])];
            level(base, scale, rate, age).store(&mut ends[0][lane]);
            let [a, b, c] = coefficients::<V>(group, lane, start.wrapping_add(TICK as u32), *control);
            a.store(&mut ends[1][lane]);
            b.store(&mut ends[2][lane]);
            c.store(&mut ends[3][lane]);
        }
    }
}

/// Sets lines to the end values that [`find_ends`] found for a whole tick.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn aim_at<V: Lanes>(group: &mut Group, lane: usize, ends: &[[f32; LANES]; 4]) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let inverse = V::splat(1.0 / TICK as f32);
        aim_line(&mut group.level, lane, V::load(&ends[0][lane]), inverse);
        for (line, ends) in group.filter.iter_mut().zip(&ends[1..]) {
            aim_line(line, lane, V::load(&ends[lane]), inverse);
        }
    }
}

/// Sets the lines of the level, which are shorter than the tick if a segment ends in it.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn aim_level<V: Lanes>(group: &mut Group, lane: usize, now: u32) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let n = V::load(&group.line_len[lane]);
        let age = V::to_float(V::sub_int(V::splat_int(now), V::load_int(&group.segment[lane]))).add(n);
        let [base, scale, rate] = [V::load(&group.base[lane]), V::load(&group.scale[lane]), V::load(&group.rate[lane])];
        aim_line(&mut group.level, lane, level(base, scale, rate, age), V::splat(1.0).div(n));
    }
}

/// Returns base + scale 2^(-rate age).
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn level<V: Lanes>(base: V, scale: V, rate: V, age: V) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe { scale.mul_add(exp2(rate.neg_mul_add(age, V::splat(0.0)).min(V::splat(0.0))), base) }
}

/// The inputs of a filter's coefficients.
struct Cutoff<V: Lanes> {
    onset: V::Int,
    octaves: V,
    sweep: V,
    sweep_rate: V,
    lfo: [V::Int; 2],
    lfo_depth: V,
    damping: V,
}

impl<V: Lanes> Cutoff<V> {
    /// Returns the coefficients at the sample `when`.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn at(self, when: V::Int, brightness: V, motion: V) -> [V; 3] {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let samples = V::sub_int(when, self.onset);
            let fall = self.sweep_rate.neg_mul_add(V::to_float(samples), V::splat(0.0)).min(V::splat(0.0));
            let octaves = self.sweep.mul_add(exp2(fall), self.octaves.add(brightness));
            let [increment, phase] = self.lfo;
            let wave = cosine::<V>(V::add_int(V::mul_int(samples, increment), phase));
            filter(wave.mul_add(self.lfo_depth.mul(motion), octaves), self.damping)
        }
    }
}

/// Returns the filter's coefficients at the sample `when`.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn coefficients<V: Lanes>(
    group: &Group,
    lane: usize,
    when: u32,
    control: Control,
) -> [V; 3] {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let cutoff = Cutoff::<V> {
            onset: V::load_int(&group.onset[lane]),
            octaves: V::load(&group.octaves[lane]),
            sweep: V::load(&group.sweep[lane]),
            sweep_rate: V::load(&group.sweep_rate[lane]),
            lfo: [V::load_int(&group.lfo_increment[lane]), V::load_int(&group.lfo_phase[lane])],
            lfo_depth: V::load(&group.lfo_depth[lane]),
            damping: V::load(&group.damping[lane]),
        };
        cutoff.at(V::splat_int(when), V::splat(control.brightness), V::splat(control.motion))
    }
}

/// The end values of the lines of one lane, tick by tick.
pub(in crate::signal::voice) struct Targets {
    pub(in crate::signal::voice) level: [f32; LANES],
    pub(in crate::signal::voice) filter: [[f32; LANES]; 3],
}

/// Returns the end values for at most V::N ticks starting at `now` with these `controls`, side by side: the same values
/// that [`aim_level`] and [`aim_slow`] find one after another when no segment ends.
///
/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(in crate::signal::voice) unsafe fn aim_ahead<V: Lanes>(
    group: &Group,
    lane: usize,
    now: u64,
    controls: &[Control],
) -> Targets {
    let mut targets = Targets { level: [0.0; LANES], filter: [[0.0; LANES]; 3] };
    let (mut starts, mut brightness, mut motion) = ([0u32; LANES], [0f32; LANES], [0f32; LANES]);
    for (tick, control) in controls.iter().enumerate() {
        starts[tick] = (now as u32).wrapping_add((tick * TICK) as u32);
        (brightness[tick], motion[tick]) = (control.brightness, control.motion);
    }
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let starts = V::load_int(starts.as_ptr());
        let age = V::to_float(V::sub_int(starts, V::splat_int(group.segment[lane]))).add(V::splat(TICK as f32));
        let [base, scale, rate] = [V::splat(group.base[lane]), V::splat(group.scale[lane]), V::splat(group.rate[lane])];
        level(base, scale, rate, age).store(targets.level.as_mut_ptr());
        let cutoff = Cutoff::<V> {
            onset: V::splat_int(group.onset[lane]),
            octaves: V::splat(group.octaves[lane]),
            sweep: V::splat(group.sweep[lane]),
            sweep_rate: V::splat(group.sweep_rate[lane]),
            lfo: [V::splat_int(group.lfo_increment[lane]), V::splat_int(group.lfo_phase[lane])],
            lfo_depth: V::splat(group.lfo_depth[lane]),
            damping: V::splat(group.damping[lane]),
        };
        let ends = V::add_int(starts, V::splat_int(TICK as u32));
        let [a, b, c] = cutoff.at(ends, V::load(brightness.as_ptr()), V::load(motion.as_ptr()));
        a.store(targets.filter[0].as_mut_ptr());
        b.store(targets.filter[1].as_mut_ptr());
        c.store(targets.filter[2].as_mut_ptr());
    }
    targets
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
unsafe fn aim_drum<V: Lanes>(group: &mut Group, lane: usize, end: u32, n: f32) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
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
