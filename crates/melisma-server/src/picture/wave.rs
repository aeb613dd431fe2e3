//! The outline of a waveform.

use serde_json::{Value, json};

/// Digits after the point of an extreme.
const DIGITS: f64 = 1e4;

/// Lowest and highest values of every `step` samples.
#[derive(Debug)]
pub(super) struct Outline {
    step: usize,
    /// Samples of the steps that were returned.
    n_samples: u64,
    /// Samples of a step that is not whole yet.
    waiting: Vec<f32>,
}

impl Outline {
    pub(super) fn new(step: usize) -> Self {
        Self { step, n_samples: 0, waiting: Vec::new() }
    }

    pub(super) fn push(&mut self, samples: &[f32]) -> Option<Value> {
        self.waiting.extend_from_slice(samples);
        self.take(self.waiting.len() / self.step * self.step)
    }

    /// Returns the last step, which may have fewer samples.
    pub(super) fn finish(mut self) -> Option<Value> {
        self.take(self.waiting.len())
    }

    fn take(&mut self, n: usize) -> Option<Value> {
        if n == 0 {
            return None;
        }
        let steps = self.waiting[..n].chunks(self.step);
        let short = |value: f32| (f64::from(value) * DIGITS).round() / DIGITS;
        let low = |step: &[f32]| short(step.iter().copied().fold(f32::INFINITY, f32::min));
        let high = |step: &[f32]| short(step.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let (min, max): (Vec<f64>, Vec<f64>) = steps.map(|step| (low(step), high(step))).unzip();
        let message =
            json!({"type": "wave", "first_sample": self.n_samples, "step": self.step, "min": min, "max": max});
        self.waiting.drain(..n);
        self.n_samples += n as u64;
        Some(message)
    }
}
