//! The functions that voices are built from: the same operations in the same order on every device.

use std::f32::consts::LN_2;

use super::lanes::Number;
use super::sound::N_PARTIALS;
use super::step::{LAST, N_COEFFICIENTS, PER_SAMPLE, Step};

/// Returns sin(π/2 z) for |z| ≤ 1, within 7e-9 before rounding.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn quarter_sine<V: Number>(z: V) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let square = z.mul(z);
        let mut sum = V::splat(0.000_151_671_7);
        for coefficient in [-0.004_674_143_6, 0.079_689_92, -0.645_963_8, 1.570_796_4] {
            sum = sum.mul_add(square, V::splat(coefficient));
        }
        sum.mul(z)
    }
}

/// Returns cos(2π phase / 2^32).
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn cosine<V: Number>(phase: V::Int) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let fold = V::sub_int(V::splat_int(1 << 30), V::abs_int(phase));
        quarter_sine(V::to_float(fold).mul(V::splat(1.0 / (1u32 << 30) as f32)))
    }
}

/// Returns 2^x for x between -100 and 100, within 2e-9 before rounding.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn exp2<V: Number>(x: V) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let x = x.max(V::splat(-100.0)).min(V::splat(100.0));
        let whole = x.round();
        let part = x.sub(V::to_float(whole));
        let mut sum = V::splat(0.000_154_614_45);
        for coefficient in [0.001_340_042_8, 0.009_618_057, 0.055_503_27, 0.240_226_5, LN_2, 1.0] {
            sum = sum.mul_add(part, V::splat(coefficient));
        }
        V::from_bits(V::add_int(sum.bits(), V::shift_left::<23>(whole)))
    }
}

/// Returns the coefficients of the state-variable filter for 2^octaves cycles per sample, limited
/// to 0.45 of the rate: 2 a1 - 1, 2 a2, 2 a3 of Simper, Solving the continuous SVF equations using
/// trapezoidal integration, 2013.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn filter<V: Number>(octaves: V, damping: V) -> [V; 3] {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let one = V::splat(1.0);
        let half_turn = exp2(octaves.max(V::splat(-14.0)).min(V::splat(-1.152_003))).mul(V::splat(2.0));
        // With g = s / c, everything is over c² + s (s + c damping), so one division suffices.
        let (s, c) = (quarter_sine(half_turn), quarter_sine(one.sub(half_turn)));
        let over = one.div(s.mul_add(c.mul_add(damping, s), c.mul(c)));
        let [sine, cosine] = [s.mul(over), c.mul(over)];
        let two = V::splat(2.0);
        [cosine.mul(c).mul_sub(two, one), sine.mul(c).mul(two), sine.mul(s).mul(two)]
    }
}

/// Returns the band-limited step at a distance from its middle, in half samples: 0 to 1.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn step<V: Number>(table: &Step, distance: V) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`; the index is at most LAST.
    unsafe {
        let place = distance.min(V::splat(LAST as f32));
        let index = place.truncate();
        let x = place.sub(V::to_float(index));
        let mut sum = V::look_up(&table.0[N_COEFFICIENTS - 1], index);
        for power in (0..N_COEFFICIENTS - 1).rev() {
            sum = sum.mul_add(x, V::look_up(&table.0[power], index));
        }
        sum
    }
}

/// Returns the period over which a saw's steps are spread, in units of [`step`] per 2^-32 of a
/// turn.
pub(super) fn period(increment: u64) -> f32 {
    let samples = 2f64.powi(64) / increment.max(1) as f64;
    (samples.clamp(super::step::REACH, 2f64.powi(32)) * PER_SAMPLE * 2f64.powi(-32)) as f32
}

/// Returns a saw that falls by 2 where its phase is 0, from 1 to -1, and rises in between. With
/// `CLOSE` it may have two steps within reach, that is, a period of less than 2
/// [`REACH`](super::step::REACH); without, the second adds nothing.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn saw<V: Number, const CLOSE: bool>(table: &Step, phase: V::Int, period: V) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let turn = V::to_float(phase);
        let magnitude = V::from_bits(V::and(turn.bits(), V::splat_int(0x7fff_ffff)));
        let sign = V::and(turn.bits(), V::splat_int(0x8000_0000));
        let distance = magnitude.mul(period);
        let mut height = step(table, distance);
        if CLOSE {
            let other = period.mul_sub(V::splat(4_294_967_296.0), distance);
            height = height.add(V::splat(1.0).sub(step(table, other)));
        }
        turn.mul_sub(V::splat(1.0 / 2_147_483_648.0), V::from_bits(V::xor(height.bits(), sign)))
    }
}

/// Returns half of white noise between -1 and 1: a hash of the sample's number.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn noise<V: Number>(number: V::Int) -> V {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let x = V::xor(number, V::shift_right::<16>(number));
        let x = V::mul_int(x, V::splat_int(0x7feb_352d));
        let x = V::xor(x, V::shift_right::<15>(x));
        let x = V::mul_int(x, V::splat_int(0x846c_a68b));
        let x = V::xor(x, V::shift_right::<16>(x));
        V::to_float(x).mul(V::splat(1.0 / 4_294_967_296.0))
    }
}

/// Returns the coefficients of P, then those of Q, lowest power first, for which Σ a_k sin(k φ) is
/// sin φ P(cos 2φ) + sin 2φ Q(cos 2φ).
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn harmonics<V: Number>(a: [V; N_PARTIALS]) -> [V; N_PARTIALS] {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let times = |x: V, factor: f32| x.mul(V::splat(factor));
        [
            a[0].add(a[2]).sub(a[4].add(a[6])),
            times(a[2].add(a[4]), 2.0).sub(times(a[6], 4.0)),
            times(a[4].add(a[6]), 4.0),
            times(a[6], 8.0),
            a[1].sub(a[5]),
            times(a[3], 2.0).sub(times(a[7], 4.0)),
            times(a[5], 4.0),
            times(a[7], 8.0),
        ]
    }
}
