//! The band-limited step of the saw: the integral of a windowed sinc (Kaiser, β = 7.5, -6 dB at
//! 0.35 of the sample rate). Aliases stay 85 dB below the fundamental, see `tests.rs`. The step is
//! cut into polynomials of half a sample, few enough for their coefficients to fit in vector
//! registers.
//!
//! # Why polynomials?
//!
//! A ramp with band-limited steps needs no tables per pitch range, so a bend switches nothing. Its
//! 5 x 16 coefficients stay in vector registers, while gathers from a wavetable would cost more
//! than the rest of the voice.

use std::sync::OnceLock;

/// Half samples before and after a step that it affects.
pub(super) const LAST: usize = 15;
/// Pieces: one more than [`LAST`], in which the step is complete and stays 1.
pub(super) const N_PIECES: usize = 16;
/// Coefficients of a piece.
pub(super) const N_COEFFICIENTS: usize = 5;
/// Pieces per sample.
pub(super) const PER_SAMPLE: f64 = 2.0;
/// Samples before and after a step that it affects.
pub(super) const REACH: f64 = LAST as f64 / PER_SAMPLE;

const CUTOFF: f64 = 0.35;
const BETA: f64 = 7.5;

/// Coefficients of powers 0 to 4, each for all pieces.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Step(pub(super) [[f32; N_PIECES]; N_COEFFICIENTS]);

/// Returns the table, computed at first use.
pub(super) fn table() -> &'static Step {
    static TABLE: OnceLock<Step> = OnceLock::new();
    TABLE.get_or_init(|| {
        let whole = integral(REACH);
        let mut table = Step([[0.0; N_PIECES]; N_COEFFICIENTS]);
        for piece in 0..LAST {
            for (power, coefficient) in polynomial(piece, whole).into_iter().enumerate() {
                table.0[power][piece] = coefficient as f32;
            }
        }
        table.0[0][LAST] = 1.0;
        table
    })
}

/// Returns the step at `distance` samples from its middle (0) to its end (1), linear between 4096 points of a sample.
#[cfg(test)]
pub(super) fn exact(distance: f64) -> f64 {
    const POINTS: f64 = 4096.0;
    static SUMS: OnceLock<Vec<f64>> = OnceLock::new();
    let sums = SUMS.get_or_init(|| {
        let middle = |index: usize| kernel((index as f64 + 0.5) / POINTS);
        let sums = (0..(REACH * POINTS) as usize).scan(0.0, |sum, index| {
            *sum += middle(index);
            Some(*sum)
        });
        std::iter::once(0.0).chain(sums).collect()
    });
    let place = (distance.min(REACH) * POINTS).min((sums.len() - 1) as f64);
    let index = (place as usize).min(sums.len() - 2);
    (sums[index] + (sums[index + 1] - sums[index]) * (place - index as f64)) / sums[sums.len() - 1]
}

/// Returns the polynomial through both ends of a piece and three Chebyshev nodes between them.
fn polynomial(piece: usize, whole: f64) -> [f64; N_COEFFICIENTS] {
    let nodes = [
        0.0,
        0.5 - 0.5 * (0.3f64 * std::f64::consts::PI).cos(),
        0.5,
        0.5 + 0.5 * (0.3f64 * std::f64::consts::PI).cos(),
        1.0,
    ];
    let mut differences = nodes.map(|x| integral((piece as f64 + x) / PER_SAMPLE) / whole);
    for order in 1..N_COEFFICIENTS {
        for index in (order..N_COEFFICIENTS).rev() {
            differences[index] = (differences[index] - differences[index - 1]) / (nodes[index] - nodes[index - order]);
        }
    }
    // Converts Newton's form to powers.
    let mut powers = [0.0; N_COEFFICIENTS];
    for index in (0..N_COEFFICIENTS).rev() {
        for power in (0..N_COEFFICIENTS).rev() {
            let lower = if power > 0 { powers[power - 1] } else { differences[index] };
            powers[power] = lower - nodes[index] * powers[power];
        }
    }
    powers
}

/// Returns the integral of the kernel from 0 to `x`, by Simpson's rule.
fn integral(x: f64) -> f64 {
    const PARTS: u32 = 400;
    let width = x / f64::from(PARTS);
    let part = |index: u32| {
        let x = f64::from(index) * width;
        (kernel(x) + 4.0 * kernel(x + width / 2.0) + kernel(x + width)) * width / 6.0
    };
    (0..PARTS).map(part).sum()
}

fn kernel(x: f64) -> f64 {
    let angle = 2.0 * CUTOFF * x * std::f64::consts::PI;
    let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
    sinc * bessel(BETA * (1.0 - (x / REACH).powi(2)).max(0.0).sqrt())
}

/// Returns the modified Bessel function of the first kind, order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..40 {
        term *= (x / (2.0 * f64::from(k))).powi(2);
        sum += term;
    }
    sum
}
