//! The measurements of a candidate.

mod accuracy;
mod draw;
mod hard_limit;
pub(super) mod inputs;
mod serve;
mod spec;
pub(super) mod work;
mod worker;

use serde::{Deserialize, Serialize};

pub(super) use accuracy::floats;
pub use accuracy::{Accuracy, compare};
pub use inputs::Sets;
pub(super) use inputs::Width;
pub use serve::serve;
pub use spec::{Done, Spec, Task};
use work::work;
#[cfg(any(feature = "bench", feature = "front", test))]
pub use worker::Program;
pub use worker::Worker;

use super::candidate::Candidate;
use crate::text::count;

/// Seconds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The fastest.
    pub min: f64,
    /// Number of measured runs after warm-up.
    pub runs: usize,
}

impl Latency {
    /// Returns the percentiles of `seconds`, which must not be empty.
    pub fn of(seconds: &[f64]) -> Self {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let index = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        let min = sorted.first().copied().unwrap_or(f64::NAN);
        Self { p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), min, runs: sorted.len() }
    }
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [p50, p90, p99, min] = [self.p50, self.p90, self.p99, self.min].map(milliseconds);
        write!(f, "p50 {p50}, p90 {p90}, p99 {p99}, min {min} ({})", count(self.runs as u64, "run"))
    }
}

/// A candidate and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// The candidate.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// The measurements; `None` if it was rejected before measuring.
    pub outcome: Option<Outcome>,
    /// Why it cannot be chosen.
    pub refused: Option<Refusal>,
}

/// Why a candidate cannot be chosen. Reports store only the text: a refusal read back is `Failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Refusal {
    /// It exceeds its memory bound.
    Memory(String),
    /// Its outputs are too far from the reference.
    Inexact(String),
    /// It rejects the model, or did not finish.
    Failed(String),
}

impl Refusal {
    /// Returns the reason as text.
    pub fn as_str(&self) -> &str {
        let (Self::Memory(reason) | Self::Inexact(reason) | Self::Failed(reason)) = self;
        reason
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        let (Refusal::Memory(reason) | Refusal::Inexact(reason) | Refusal::Failed(reason)) = refusal;
        reason
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The measurements of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// Time from the file to an engine that is ready to run.
    pub load_seconds: f64,
    /// The first run, including all one-time costs.
    pub first_seconds: f64,
    /// The runs after warm-up.
    pub latency_seconds: Latency,
    /// Peak physical memory of the process that ran it.
    pub peak_bytes: Option<u64>,
    /// The error against FP32.
    pub accuracy: Accuracy,
}

impl Outcome {
    /// Returns the time from the file to the first result.
    pub fn first_result_seconds(&self) -> f64 {
        self.load_seconds + self.first_seconds
    }
}

impl Measured {
    /// Returns whether it was rejected because of its memory.
    pub(super) fn is_over_memory(&self) -> bool {
        matches!(self.refused, Some(Refusal::Memory(_)))
    }
}

/// Returns seconds as text, in milliseconds.
pub(super) fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let digits = if ms < 10.0 { 3 } else { usize::from(ms < 1000.0) };
    format!("{ms:.digits$} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let latency = Latency::of(&(1..=200).rev().map(f64::from).collect::<Vec<_>>());
        assert_eq!((latency.p50, latency.p90, latency.p99, latency.runs), (100.0, 180.0, 198.0, 200));
        assert_eq!(latency.min, 1.0);
        let one = Latency::of(&[0.5]);
        assert_eq!((one.p50, one.p99), (0.5, 0.5));
    }
}
