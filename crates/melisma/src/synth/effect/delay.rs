//! Echoes that go from side to side, each darker than the one before.

use std::f64::consts::TAU;

use super::flush;
use crate::{Error, Result};

/// The longest time between echoes, in seconds.
const MAX_TIME: f64 = 2.0;

/// The settings of the echoes.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// Samples since something was heard or held.
    silence: usize,
    tail: u64,
}

impl Delay {
    /// Reserves the longest echo's time.
    ///
    /// # Errors
    /// A setting is outside of its limits.
    pub fn new(settings: DelaySettings, sample_rate: u32) -> Result<Self> {
        let DelaySettings { time_s, feedback, cutoff_hz } = settings;
        if !(0.001..=MAX_TIME).contains(&time_s) {
            return Err(Error::invalid(format!("a delay of {time_s} s; 0.001 to {MAX_TIME}")));
        }
        if !(0.0..=0.95).contains(&feedback) {
            return Err(Error::invalid(format!("a feedback of {feedback}; 0 to 0.95")));
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

    /// Replaces a sound by its echoes.
    pub fn process(&mut self, left: &mut [f32], right: &mut [f32]) {
        for (left, right) in left.iter_mut().zip(right) {
            if *left == 0.0 && *right == 0.0 && self.silence >= self.left.len() {
                continue;
            }
            (*left, *right) = self.step(*left, *right);
        }
    }

    fn step(&mut self, left: f32, right: f32) -> (f32, f32) {
        let heard = (self.left[self.at], self.right[self.at]);
        self.low[0] = flush(self.low[0] + self.share * (heard.0 - self.low[0]));
        self.low[1] = flush(self.low[1] + self.share * (heard.1 - self.low[1]));
        // An echo changes sides.
        let written = (flush(left + self.feedback * self.low[1]), flush(right + self.feedback * self.low[0]));
        (self.left[self.at], self.right[self.at]) = written;
        self.at = if self.at + 1 == self.left.len() { 0 } else { self.at + 1 };
        let is_silent = [written.0, written.1, self.low[0], self.low[1]] == [0.0; 4];
        self.silence = if is_silent { self.silence + 1 } else { 0 };
        heard
    }

    /// Samples after the last sound until there is exact silence, at most.
    pub fn tail_samples(&self) -> u64 {
        self.tail
    }
}
