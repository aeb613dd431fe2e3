//! Loudness and true peak of a stereo sound (ITU-R BS.1770-4, EBU R 128).

use std::f64::consts::PI;

use super::interpolate::{HALF, Interpolator};

/// Steps of a block of 400 ms.
const STEPS: usize = 4;
/// Blocks below this are silence.
const ABSOLUTE_GATE: f64 = -70.0;
/// Blocks this far below the mean of the others do not count.
const RELATIVE_GATE: f64 = -10.0;
/// Samples that are looked at together for peaks.
const ROOM: usize = 1024;
/// Points that are skipped together if none of them can exceed the known peak: many, or else fewer.
const GROUP: usize = 128;
const PART: usize = 16;
/// How far rounding may exceed a bound, as a share of the peak: 24 products and sums of size 3 or less.
const ROUNDING: f32 = 2e-5;
/// Samples between two looks for states so small that they would end in denormal numbers, which are slow.
const FLUSH: usize = 480;

/// Takes a sound in blocks of any size.
#[derive(Debug, Clone)]
pub struct Meter {
    weighting: [Biquad; 2],
    step_len: usize,
    filled: usize,
    /// The power of the steps before, and of the current one.
    steps: [f64; STEPS],
    n_steps: u64,
    /// Of every block of 400 ms that is not silence, its mean power.
    blocks: Vec<f64>,
    /// The mean power of the last block.
    last: f64,
    peaks: [Peak; 2],
}

impl Meter {
    /// Creates a meter before the first sample.
    pub fn new(sample_rate: u32) -> Self {
        let rate = f64::from(sample_rate);
        Self {
            weighting: [Biquad::shelf(rate), Biquad::high_pass(rate)],
            step_len: ((rate / 10.0).round() as usize).max(1),
            filled: 0,
            steps: [0.0; STEPS],
            n_steps: 0,
            blocks: Vec::new(),
            last: 0.0,
            peaks: [Peak::new(), Peak::new()],
        }
    }

    /// Takes the next samples; the shorter side counts.
    pub fn push(&mut self, left: &[f32], right: &[f32]) {
        let n = left.len().min(right.len());
        let (left, right) = (&left[..n], &right[..n]);
        self.peaks[0].push(left);
        self.peaks[1].push(right);
        let (mut left, mut right) = (left, right);
        while !left.is_empty() {
            // Where runs end does not depend on where blocks do.
            let run = (self.step_len - self.filled).min(FLUSH - self.filled % FLUSH).min(left.len());
            self.steps[STEPS - 1] = self.weigh(&left[..run], &right[..run], self.steps[STEPS - 1]);
            self.filled += run;
            if self.filled.is_multiple_of(FLUSH) || self.filled == self.step_len {
                self.weighting.iter_mut().for_each(Biquad::flush);
            }
            if self.filled == self.step_len {
                self.end_step();
            }
            (left, right) = (&left[run..], &right[run..]);
        }
    }

    /// Adds the power of weighted samples.
    fn weigh(&mut self, left: &[f32], right: &[f32], mut power: f64) -> f64 {
        let [mut shelf, mut high_pass] = self.weighting;
        for (&left, &right) in left.iter().zip(right) {
            let [left, right] = high_pass.step(shelf.step([f64::from(left), f64::from(right)]));
            power += left * left + right * right;
        }
        self.weighting = [shelf, high_pass];
        power
    }

    fn end_step(&mut self) {
        self.filled = 0;
        self.n_steps += 1;
        if self.n_steps >= STEPS as u64 {
            let power = self.steps.iter().sum::<f64>() / (STEPS * self.step_len) as f64;
            self.last = power;
            if lufs(power) > ABSOLUTE_GATE {
                self.blocks.push(power);
            }
        }
        self.steps.rotate_left(1);
        self.steps[STEPS - 1] = 0.0;
    }

    /// Returns the gated loudness of all samples, in LUFS; `None` for silence and for less than 400
    /// ms.
    pub fn integrated(&self) -> Option<f64> {
        let mean = |blocks: &[f64]| blocks.iter().sum::<f64>() / blocks.len() as f64;
        if self.blocks.is_empty() {
            return None;
        }
        let gate = lufs(mean(&self.blocks)) + RELATIVE_GATE;
        let counted: Vec<f64> = self.blocks.iter().copied().filter(|&power| lufs(power) > gate).collect();
        Some(lufs(mean(&counted)))
    }

    /// Returns the loudness of the last 400 ms, to the last tenth of a second, in LUFS; `None` for
    /// silence.
    pub fn momentary(&self) -> Option<f64> {
        Some(lufs(self.last)).filter(|loudness| *loudness > ABSOLUTE_GATE)
    }

    /// Forgets peaks and the loudness before the last 400 ms, so that a meter of an endless sound does not
    /// grow.
    pub fn forget(&mut self) {
        self.blocks.clear();
        self.peaks.iter_mut().for_each(|peak| peak.peak = 0.0);
    }

    /// Returns the largest size on or between samples, where 1 is full scale.
    pub fn peak(&self) -> f64 {
        self.peaks.iter().map(|peak| f64::from(peak.finish())).fold(0.0, f64::max)
    }

    /// Returns the true peak in decibels of full scale; `None` for exact silence.
    pub fn peak_dbtp(&self) -> Option<f64> {
        Some(self.peak()).filter(|peak| *peak > 0.0).map(|peak| 20.0 * peak.log10())
    }
}

/// Returns the loudness of a mean power.
fn lufs(power: f64) -> f64 {
    -0.691 + 10.0 * power.log10()
}

/// One side's peaks.
#[derive(Debug, Clone)]
struct Peak {
    interpolator: Interpolator,
    history: Vec<f32>,
    peak: f32,
}

impl Peak {
    fn new() -> Self {
        // Silence before the first sample, so that points before it count.
        let mut history = Vec::with_capacity(2 * HALF + ROOM);
        history.resize(2 * HALF - 1, 0.0);
        Self { interpolator: Interpolator::new(), history, peak: 0.0 }
    }

    fn push(&mut self, samples: &[f32]) {
        for part in samples.chunks(ROOM) {
            self.history.extend_from_slice(part);
            self.peak = self.look(&self.history, self.peak);
            let kept = self.history.len() - (2 * HALF - 1);
            self.history.drain(..kept);
        }
    }

    /// Returns the peak with silence after the last sample.
    fn finish(&self) -> f32 {
        let mut rest = self.history.clone();
        rest.resize(rest.len() + 2 * HALF, 0.0);
        self.look(&rest, self.peak)
    }

    fn look(&self, samples: &[f32], mut peak: f32) -> f32 {
        peak = peak.max(size(samples));
        let n_windows = (samples.len() + 1).saturating_sub(2 * HALF);
        for first in (0..n_windows).step_by(GROUP) {
            let last = (first + GROUP).min(n_windows);
            if !self.is_below(&samples[first..last - 1 + 2 * HALF], peak) {
                peak = self.look_closer(&samples[first..last - 1 + 2 * HALF], peak);
            }
        }
        peak
    }

    fn look_closer(&self, samples: &[f32], mut peak: f32) -> f32 {
        let n_windows = samples.len() + 1 - 2 * HALF;
        for first in (0..n_windows).step_by(PART) {
            let last = (first + PART).min(n_windows);
            if self.is_below(&samples[first..last - 1 + 2 * HALF], peak) {
                continue;
            }
            for at in first..last {
                peak = peak.max(self.interpolator.peak(&samples[at..at + 2 * HALF]));
            }
        }
        peak
    }

    /// Returns whether no point between samples can exceed `peak`.
    fn is_below(&self, samples: &[f32], peak: f32) -> bool {
        self.bound(samples) <= peak * (1.0 - ROUNDING)
    }

    /// Returns a bound: no point between the middle samples of any window in `samples` is larger, up to rounding.
    fn bound(&self, samples: &[f32]) -> f32 {
        let middle = size(&samples[HALF - 1..samples.len() - (HALF - 1)]);
        middle + self.interpolator.bend * bend(samples)
    }
}

/// Returns the largest of the sizes; NaN does not count.
fn size(samples: &[f32]) -> f32 {
    let (parts, rest) = samples.as_chunks::<8>();
    let mut lanes = [0f32; 8];
    for part in parts {
        lanes.iter_mut().zip(part).for_each(|(lane, sample)| *lane = lane.max(sample.abs()));
    }
    lanes.iter().chain(rest).fold(0f32, |size, sample| size.max(sample.abs()))
}

/// Returns the largest size of a second difference.
fn bend(samples: &[f32]) -> f32 {
    let mut differences = [0f32; GROUP + 2 * HALF];
    let neighbours = samples.iter().zip(&samples[1..]).zip(&samples[2..]);
    for (difference, ((before, sample), after)) in differences.iter_mut().zip(neighbours) {
        *difference = before - 2.0 * sample + after;
    }
    size(&differences[..samples.len() - 2])
}

/// A second-order filter of both sides, transposed direct form II.
#[derive(Debug, Clone, Copy)]
struct Biquad {
    b: [f64; 3],
    a: [f64; 2],
    state: [[f64; 2]; 2],
}

impl Biquad {
    /// Returns the head's shelf. The recommendation has coefficients for 48 kHz only; these are the same filter at
    /// any rate.
    fn shelf(rate: f64) -> Self {
        let (f, gain, q) = (1_681.974_450_955_533, 3.999_843_853_973_347, 0.707_175_236_955_419_6);
        let k = (PI * f / rate).tan();
        let high = 10f64.powf(gain / 20.0);
        let middle = high.powf(0.499_666_774_154_541_6);
        let a0 = 1.0 + k / q + k * k;
        let b = [high + middle * k / q + k * k, 2.0 * (k * k - high), high - middle * k / q + k * k];
        Self { b: b.map(|b| b / a0), a: [2.0 * (k * k - 1.0) / a0, (1.0 - k / q + k * k) / a0], state: [[0.0; 2]; 2] }
    }

    /// Returns the revised low-frequency curve.
    fn high_pass(rate: f64) -> Self {
        let (f, q) = (38.135_470_876_024_44, 0.500_327_037_323_877_3);
        let k = (PI * f / rate).tan();
        let a0 = 1.0 + k / q + k * k;
        let a = [2.0 * (k * k - 1.0) / a0, (1.0 - k / q + k * k) / a0];
        Self { b: [1.0, -2.0, 1.0], a, state: [[0.0; 2]; 2] }
    }

    fn step(&mut self, x: [f64; 2]) -> [f64; 2] {
        let [first, second] = self.state;
        let y = [0, 1].map(|side| self.b[0] * x[side] + first[side]);
        self.state[0] = [0, 1].map(|side| self.b[1] * x[side] - self.a[0] * y[side] + second[side]);
        self.state[1] = [0, 1].map(|side| self.b[2] * x[side] - self.a[1] * y[side]);
        y
    }

    /// Forgets what is far below audibility.
    fn flush(&mut self) {
        for state in self.state.as_flattened_mut().iter_mut().filter(|state| state.abs() < 1e-30) {
            *state = 0.0;
        }
    }
}

#[cfg(test)]
mod tests;
