//! Echoes that go from side to side, each darker than the one before.

use std::f64::consts::TAU;

use melisma_kernels::memory::prefetch;

use super::{flush, same_len};
use crate::synth::event::check_rate;
use crate::{Error, Result};

/// The longest time between echoes, in seconds.
const MAX_TIME: f64 = 2.0;
/// Samples that are worked on together.
const RUN: usize = 256;

/// The settings of the echoes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct DelaySettings {
    /// Seconds from one to the next, 0.001 to 2.
    pub time_s: f64,
    /// The share that comes again, 0 to 0.95.
    pub feedback: f64,
    /// Each passes a low-pass of this frequency.
    pub cutoff_hz: f64,
}

impl Default for DelaySettings {
    fn default() -> Self {
        Self { time_s: 0.375, feedback: 0.4, cutoff_hz: 4000.0 }
    }
}

impl DelaySettings {
    setters! {
        /// Sets the seconds from one echo to the next, 0.001 to 2.
        pub fn with_time_s(time_s: f64);
        /// Sets the share that comes again, 0 to 0.95.
        pub fn with_feedback(feedback: f64);
        /// Sets the low-pass that each echo passes.
        pub fn with_cutoff_hz(cutoff_hz: f64);
    }
}

/// Echoes of a stereo sound, without the sound itself.
#[derive(Debug, Clone)]
pub struct Delay {
    left: Vec<f32>,
    right: Vec<f32>,
    at: usize,
    feedback: f32,
    /// Of the low-pass: y += share (x - y).
    share: f32,
    low: [f32; 2],
    /// Samples since something was written or low-passed.
    silence: usize,
    tail: u64,
}

impl Delay {
    /// Reserves the longest echo's time.
    ///
    /// # Errors
    /// A setting is outside of its limits, or the rate is not 8 to 192 kHz.
    pub fn new(settings: DelaySettings, sample_rate: u32) -> Result<Self> {
        check_rate(sample_rate)?;
        let DelaySettings { time_s, feedback, cutoff_hz } = settings;
        if !(0.001..=MAX_TIME).contains(&time_s) {
            return Err(Error::invalid(format!("a delay of {time_s} s is out of range: 0.001 to {MAX_TIME}")));
        }
        if !(0.0..=0.95).contains(&feedback) {
            return Err(Error::invalid(format!("a feedback of {feedback} is out of range: 0 to 0.95")));
        }
        let len = ((time_s * f64::from(sample_rate)).round() as usize).max(1);
        let share = 1.0 - (-TAU * cutoff_hz.max(1.0) / f64::from(sample_rate)).exp();
        // Until -180 dB of full scale is reached.
        let echoes = if feedback > 0.0 { (1e-9f64.ln() / feedback.ln()).ceil() } else { 1.0 };
        let tail = (echoes as u64 + 1) * len as u64 + u64::from(sample_rate) / 10;
        let (left, right) = (vec![0.0; len], vec![0.0; len]);
        Ok(Self {
            left,
            right,
            at: 0,
            feedback: feedback as f32,
            share: share as f32,
            low: [0.0; 2],
            silence: len,
            tail,
        })
    }

    /// Asks for what the next `n` samples need from memory.
    pub fn prefetch(&self, n: usize) {
        let end = self.left.len().min(self.at.saturating_add(n));
        [&self.left, &self.right].into_iter().for_each(|line| prefetch(&line[self.at..end]));
    }

    /// Replaces a sound by its echoes; the shorter side counts.
    pub fn process(&mut self, left: &mut [f32], right: &mut [f32]) {
        let [mut left, mut right] = same_len(left, right);
        while !left.is_empty() {
            let n = left.len().min(RUN).min(self.left.len() - self.at);
            let ((now_left, rest_left), (now_right, rest_right)) = (left.split_at_mut(n), right.split_at_mut(n));
            let is_silent = now_left.iter().chain(&*now_right).all(|sample| *sample == 0.0);
            if !(is_silent && self.silence >= self.left.len()) {
                self.run(now_left, now_right);
            }
            (left, right) = (rest_left, rest_right);
        }
    }

    /// Processes samples up to the end of the lines at most, so that nothing of them comes back among them.
    fn run(&mut self, left: &mut [f32], right: &mut [f32]) {
        let (n, feedback) = (left.len(), self.feedback);
        let held = [&mut self.left[self.at..self.at + n], &mut self.right[self.at..self.at + n]];
        let mut lows = [[0.0; RUN]; 2];
        for t in 0..n {
            for side in 0..2 {
                self.low[side] = flush(self.low[side] + self.share * (held[side][t] - self.low[side]));
                lows[side][t] = self.low[side];
            }
        }
        // An echo changes sides.
        let [low_left, low_right] = &lows;
        for ((held, sound), low) in held.into_iter().zip([left, right]).zip([low_right, low_left]) {
            for ((held, sound), low) in held.iter_mut().zip(sound).zip(low) {
                let written = flush(*sound + feedback * low);
                *sound = std::mem::replace(held, written);
            }
        }
        self.at = if self.at + n == self.left.len() { 0 } else { self.at + n };
        self.count_silence(n, &lows);
    }

    /// Counts the silent ones of the last `n` samples, up to the newest.
    fn count_silence(&mut self, n: usize, lows: &[[f32; RUN]; 2]) {
        let end = if self.at == 0 { self.left.len() } else { self.at };
        let written = self.left[end - n..end].iter().zip(&self.right[end - n..end]);
        let lows = lows[0][..n].iter().zip(&lows[1]);
        let samples = written.zip(lows);
        let n_silent = samples.rev().take_while(|((a, b), (c, d))| [**a, **b, **c, **d] == [0.0; 4]).count();
        self.silence = if n_silent == n { self.silence + n } else { n_silent };
    }

    /// Returns the number of samples after the last sound until there is exact silence, at most.
    pub fn tail_samples(&self) -> u64 {
        self.tail
    }
}
