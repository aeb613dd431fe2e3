//! Keeps peaks, also those between samples, below a ceiling by reducing the gain shortly before them.
//!
//! r[j] is the gain that sample j and the points beside it need. The least r of the last W samples, let rise slowly, and then the mean
//! of W such values is the gain at n; it is at most r[n - W + 1], and that is the sample that leaves. Gains are integers of 2^-30 while they are
//! added up, so that the running sum never drifts.

use super::same_len;
use crate::audio::interpolate::{HALF, Interpolator};
use crate::synth::event::check_rate;
use crate::{Error, Result};

/// Seconds to turn down in.
const ATTACK: f64 = 0.0015;
/// Seconds in which the gain comes back by 63 %.
const RELEASE: f64 = 0.08;
/// Gain changes move points between samples a little.
const MARGIN_DB: f64 = 0.15;
const ONE: f64 = (1u64 << 30) as f64;
/// A block of the audio's history, beyond which it is moved to the front.
const ROOM: usize = 1024;
/// Samples that pass together if none of them can matter.
const RUN: usize = 64;

/// A limiter of both sides together.
#[derive(Debug, Clone)]
pub struct Limiter {
    interpolator: Interpolator,
    ceiling: f32,
    /// Both sides; the newest sample is at `at - 1`.
    history: [Vec<f32>; 2],
    at: usize,
    /// Samples since one that could matter.
    calm: usize,
    /// The largest size of the interval before the next sample's.
    before: f32,
    /// Needs of the last W samples that no later one undercuts: sample number and gain, a queue in a ring.
    needs: Vec<(u64, u32)>,
    first: usize,
    n_needs: usize,
    n: u64,
    gain: u32,
    /// What share of the way back is taken per sample, in 2^-32.
    release: u64,
    /// The last W gains and their sum.
    recent: Vec<u32>,
    sum: u64,
}

impl Limiter {
    /// Creates a limiter that keeps peaks at or below `ceiling_dbtp` decibels of full scale.
    ///
    /// # Errors
    /// The ceiling is not from -60 to 0 dB, or the rate is not 8 to 192 kHz.
    pub fn new(ceiling_dbtp: f64, sample_rate: u32) -> Result<Self> {
        check_rate(sample_rate)?;
        if !(-60.0..=0.0).contains(&ceiling_dbtp) {
            return Err(Error::invalid(format!("a ceiling of {ceiling_dbtp} dBTP is out of range: -60 to 0")));
        }
        let window = ((ATTACK * f64::from(sample_rate)).ceil() as usize).max(2);
        let kept = 2 * HALF + window;
        Ok(Self {
            interpolator: Interpolator::new(),
            ceiling: 10f64.powf((ceiling_dbtp - MARGIN_DB) / 20.0) as f32,
            history: [vec![0.0; kept + ROOM], vec![0.0; kept + ROOM]],
            at: kept,
            calm: usize::MAX / 2,
            before: 0.0,
            needs: vec![(0, 0); window + 1],
            first: 0,
            n_needs: 0,
            n: 0,
            gain: ONE as u32,
            release: ((1.0 - (-1.0 / (RELEASE * f64::from(sample_rate))).exp()) * 4_294_967_296.0) as u64,
            recent: vec![ONE as u32; window],
            sum: window as u64 * ONE as u64,
        })
    }

    /// Returns the latency in samples.
    pub fn latency(&self) -> usize {
        HALF + self.recent.len() - 1
    }

    /// Returns the number of samples after the last sound until there is exact silence.
    pub fn tail_samples(&self) -> u64 {
        self.latency() as u64
    }

    /// Limits in place; the shorter side counts. NaN and infinities count as silence.
    pub fn process(&mut self, left: &mut [f32], right: &mut [f32]) {
        let [left, right] = same_len(left, right);
        for (left, right) in left.chunks_mut(RUN).zip(right.chunks_mut(RUN)) {
            if self.is_at_rest() && self.is_calm(left) && self.is_calm(right) {
                self.pass(left, right);
            } else {
                left.iter_mut().zip(right).for_each(|(left, right)| (*left, *right) = self.step(*left, *right));
            }
        }
    }

    /// Returns whether calm samples leave as they came.
    fn is_at_rest(&self) -> bool {
        self.calm > 2 * HALF && self.gain == ONE as u32 && self.sum == self.recent.len() as u64 * ONE as u64
    }

    /// Returns whether no sample can matter.
    fn is_calm(&self, samples: &[f32]) -> bool {
        let matters = |sample: &f32| u32::from(!self.is_small(sample.abs()));
        samples.iter().map(matters).sum::<u32>() == 0
    }

    /// Returns whether no point beside a sample of `size` can exceed the ceiling; false for NaN.
    fn is_small(&self, size: f32) -> bool {
        size * self.interpolator.gain < self.ceiling
    }

    /// Works like [`Limiter::step`] for calm samples of a limiter at rest.
    fn pass(&mut self, left: &mut [f32], right: &mut [f32]) {
        let n = left.len();
        self.make_room(n);
        let leaves = self.at - self.latency();
        for (history, samples) in self.history.iter_mut().zip([left, right]) {
            history[self.at..self.at + n].copy_from_slice(samples);
            samples.copy_from_slice(&history[leaves..leaves + n]);
        }
        self.at += n;
        self.calm += n;
        self.before = 0.0;
        self.n += n as u64;
        self.needs[self.first] = (self.n - 1, ONE as u32);
    }

    fn step(&mut self, left: f32, right: f32) -> (f32, f32) {
        let sample = [left, right].map(|x| if x.is_finite() { x } else { 0.0 });
        self.put(sample);
        let need = self.need(sample);
        self.remember(need);
        let least = self.needs[self.first].1;
        if least < self.gain {
            self.gain = least;
        } else {
            // Rounded up, so that it arrives.
            let way = u64::from(least - self.gain);
            self.gain += ((way * self.release + u64::from(u32::MAX)) >> 32) as u32;
        }
        let window = self.recent.len();
        let slot = (self.n % window as u64) as usize;
        self.sum = self.sum - u64::from(self.recent[slot]) + u64::from(self.gain);
        self.recent[slot] = self.gain;
        self.n += 1;
        let gain = (self.sum as f64 / (window as f64 * ONE)) as f32;
        let leaves = self.at - 1 - self.latency();
        (gain * self.history[0][leaves], gain * self.history[1][leaves])
    }

    fn put(&mut self, sample: [f32; 2]) {
        self.make_room(1);
        for (history, sample) in self.history.iter_mut().zip(sample) {
            history[self.at] = sample;
        }
        self.at += 1;
    }

    /// Makes room for `n` more samples, by moving those that are still needed to the front.
    fn make_room(&mut self, n: usize) {
        let len = self.history[0].len();
        if self.at + n > len {
            let kept = len - ROOM;
            self.history.iter_mut().for_each(|history| history.copy_within(self.at - kept..self.at, 0));
            self.at = kept;
        }
    }

    /// Returns the gain that the sample HALF before the newest one needs, with the points on both of its sides.
    fn need(&mut self, newest: [f32; 2]) -> u32 {
        let size = newest[0].abs().max(newest[1].abs());
        self.calm = if self.is_small(size) { self.calm + 1 } else { 0 };
        // One sample longer than the filter, for the interval before.
        if self.calm > 2 * HALF {
            self.before = 0.0;
            return ONE as u32;
        }
        let mut after = 0f32;
        let mut own = 0f32;
        for history in &self.history {
            after = after.max(self.interpolator.peak(&history[self.at - 2 * HALF..self.at]));
            own = own.max(history[self.at - 1 - HALF].abs());
        }
        let peak = own.max(after).max(self.before);
        self.before = after;
        if peak <= self.ceiling { ONE as u32 } else { (f64::from(self.ceiling) / f64::from(peak) * ONE) as u32 }
    }

    /// Keeps the needs of the last W samples in rising order.
    fn remember(&mut self, need: u32) {
        let room = self.needs.len();
        while self.n_needs > 0 && self.needs[(self.first + self.n_needs - 1) % room].1 >= need {
            self.n_needs -= 1;
        }
        if self.n_needs > 0 && self.needs[self.first].0 + self.recent.len() as u64 <= self.n {
            self.first = (self.first + 1) % room;
            self.n_needs -= 1;
        }
        self.needs[(self.first + self.n_needs) % room] = (self.n, need);
        self.n_needs += 1;
    }
}
