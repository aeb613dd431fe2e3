//! Three points between two neighbouring samples, by a windowed sinc, to find true peaks (ITU-R BS.1770-4, annex 2, with a
//! longer filter).

use super::sinc::{bessel, sinc};

/// Samples on either side.
pub(crate) const HALF: usize = 12;
const N: usize = 2 * HALF;
/// The window's shape.
const BETA: f64 = 7.0;

/// The filters for one, two and three quarters of the way.
#[derive(Debug, Clone)]
pub(crate) struct Interpolator {
    taps: [[f32; N]; 3],
    /// No point between can be larger than this times the largest sample around it.
    pub(crate) gain: f32,
    /// No point between exceeds the larger of its two neighbours by more than this times the largest
    /// second difference around it.
    pub(crate) bend: f32,
}

impl Interpolator {
    pub(crate) fn new() -> Self {
        let mut taps = [[0.0f32; N]; 3];
        for (quarter, taps) in taps.iter_mut().enumerate() {
            let place = (quarter + 1) as f64 / 4.0;
            let raw: [f64; N] = std::array::from_fn(|k| {
                let x = k as f64 - (HALF - 1) as f64 - place;
                let inside = 1.0 - (x / HALF as f64).powi(2);
                let window = if inside > 0.0 { bessel(BETA * inside.sqrt()) / bessel(BETA) } else { 0.0 };
                sinc(x) * window
            });
            let sum: f64 = raw.iter().sum();
            *taps = raw.map(|tap| (tap / sum) as f32);
        }
        let size = |taps: &[f32; N]| taps.iter().map(|tap| tap.abs()).sum::<f32>();
        let gain = taps.iter().map(size).fold(1.0, f32::max) * 1.000_01;
        let bend = taps.iter().map(bend).fold(0.0, f64::max) as f32 * 1.000_01;
        Self { taps, gain, bend }
    }

    /// Returns the largest size between the two middle samples of `window`, which has 24.
    pub(crate) fn peak(&self, window: &[f32]) -> f32 {
        let mut peak = 0f32;
        for taps in &self.taps {
            let mut sums = [0f32; 4];
            for (taps, samples) in taps.as_chunks::<4>().0.iter().zip(window.as_chunks::<4>().0) {
                for lane in 0..4 {
                    sums[lane] += taps[lane] * samples[lane];
                }
            }
            peak = peak.max(((sums[0] + sums[2]) + (sums[1] + sums[3])).abs());
        }
        peak
    }
}

/// Returns the sum of the sizes of a filter's weights on second differences. With the line through
/// the two middle samples taken away, each sample is a sum of second differences on its way to the
/// middle: x[k] = sum of (k - j) d[j] over middle <= j < k, and the same to the left.
fn bend(taps: &[f32; N]) -> f64 {
    let weight = |j: usize| {
        let reached = if j >= HALF { j + 1..N } else { 0..j };
        reached.map(|k| k.abs_diff(j) as f64 * f64::from(taps[k])).sum::<f64>()
    };
    (1..N - 1).map(|j| weight(j).abs()).sum()
}
