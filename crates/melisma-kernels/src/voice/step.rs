//! The band-limited step of the saw: the integral of a windowed sinc (Kaiser, β = 7.5, -6 dB at 0.35 of the sample rate),
//! as values and slopes. Aliases stay 90 dB below the fundamental, see `tests.rs`.

use std::sync::OnceLock;

/// Samples before and after a step that it changes.
pub(super) const REACH: usize = 8;
/// Table entries per sample.
pub(super) const PER_SAMPLE: usize = 64;
/// The last entry: the step is over, and stays.
pub(super) const LAST: usize = REACH * PER_SAMPLE;

const CUTOFF: f64 = 0.35;
const BETA: f64 = 7.5;

/// Values and slopes, aligned to cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Step(pub(super) [[f32; 2]; LAST + 1]);

/// The table, made at first use.
pub(super) fn table() -> &'static Step {
    static TABLE: OnceLock<Step> = OnceLock::new();
    TABLE.get_or_init(|| {
        let values = values();
        let mut table = Step([[1.0, 0.0]; LAST + 1]);
        for (index, entry) in table.0[..LAST].iter_mut().enumerate() {
            *entry = [values[index] as f32, (values[index + 1] - values[index]) as f32];
        }
        table
    })
}

/// The step from its middle (0) to its end (1), by Simpson's rule.
pub(super) fn values() -> Vec<f64> {
    const PARTS: usize = 16;
    let width = 1.0 / (PER_SAMPLE * PARTS) as f64;
    let mut sums = Vec::with_capacity(LAST + 1);
    let mut sum = 0.0;
    sums.push(0.0);
    for entry in 0..LAST {
        for part in 0..PARTS {
            let x = (entry * PARTS + part) as f64 * width;
            sum += (kernel(x) + 4.0 * kernel(x + width / 2.0) + kernel(x + width)) * width / 6.0;
        }
        sums.push(sum);
    }
    sums.iter().map(|value| value / sum).collect()
}

fn kernel(x: f64) -> f64 {
    let angle = 2.0 * CUTOFF * x * std::f64::consts::PI;
    let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
    let place = 1.0 - (x / REACH as f64).powi(2);
    sinc * bessel(BETA * place.max(0.0).sqrt())
}

/// The modified Bessel function of the first kind, order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..40 {
        term *= (x / (2.0 * f64::from(k))).powi(2);
        sum += term;
    }
    sum
}
