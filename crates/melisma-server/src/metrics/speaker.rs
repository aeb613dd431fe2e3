//! What voice models do.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use melisma::lock::Mutex;
use melisma::speak::Step;
use serde_json::{Value, json};

use super::head;
use super::histogram::{Histogram, SECONDS};

/// How texts end. A counter starts at zero for each, so that its first one is an increase.
const OUTCOMES: [&str; 3] = ["client_left", "done", "failed"];

/// Counters of one voice model.
#[derive(Debug)]
pub struct SpeakerMetrics {
    tokens: AtomicU64,
    /// Of steps in which every text reads one token, and of those in which some text reads of its prompt.
    steps: [Histogram; 2],
    /// By outcome.
    ended: Mutex<BTreeMap<&'static str, u64>>,
    /// Bytes of the cache that texts hold.
    held_bytes: AtomicU64,
}

impl Default for SpeakerMetrics {
    fn default() -> Self {
        Self {
            tokens: AtomicU64::new(0),
            steps: [SECONDS; 2].map(Histogram::new),
            ended: Mutex::new(BTreeMap::from(OUTCOMES.map(|outcome| (outcome, 0)))),
            held_bytes: AtomicU64::new(0),
        }
    }
}

impl SpeakerMetrics {
    /// Counts a step, which took `time`.
    pub fn step(&self, step: &Step, time: Duration) {
        self.tokens.fetch_add(step.n_tokens as u64, Relaxed);
        self.steps[usize::from(step.has_prompt)].add(time.as_secs_f64());
    }

    /// Counts a text that ended.
    pub fn ended(&self, outcome: &'static str) {
        *self.ended.lock().entry(outcome).or_default() += 1;
    }

    /// Notes the bytes of the cache that texts hold.
    pub fn hold(&self, bytes: u64) {
        self.held_bytes.store(bytes, Relaxed);
    }

    /// Returns the bytes of the cache that texts hold.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// Returns `{"tokens", "cache_in_use_bytes", "step_p50_seconds", "step_p99_seconds"}`.
    pub fn json(&self) -> Value {
        let [p50, p99] = [0.5, 0.99].map(|share| self.steps[0].quantile(share));
        json!({
            "tokens": self.tokens.load(Relaxed),
            "cache_in_use_bytes": self.held_bytes(),
            "step_p50_seconds": p50,
            "step_p99_seconds": p99,
        })
    }
}

/// Writes Prometheus' text format of voice models by name.
pub(crate) fn write(models: &[(&str, &SpeakerMetrics)], text: &mut String) {
    if models.is_empty() {
        return;
    }
    head(text, "speak_tokens_total", "counter", "Tokens that a voice model drew.");
    for (name, metrics) in models {
        let _ = writeln!(text, "melisma_speak_tokens_total{{model=\"{name}\"}} {}", metrics.tokens.load(Relaxed));
    }
    let kinds = [
        ("speak_step_seconds", "Time of a step in which every text reads one token."),
        ("speak_prompt_seconds", "Time of a step in which some text reads of its prompt."),
    ];
    for (kind, (metric, help)) in kinds.into_iter().enumerate() {
        head(text, metric, "histogram", help);
        for (name, metrics) in models {
            metrics.steps[kind].write(&format!("melisma_{metric}"), &format!("model=\"{name}\""), text);
        }
    }
    head(text, "speak_texts_total", "counter", "Texts of a voice model, by how they ended.");
    for (name, metrics) in models {
        for (outcome, n) in &*metrics.ended.lock() {
            let _ = writeln!(text, "melisma_speak_texts_total{{model=\"{name}\",outcome=\"{outcome}\"}} {n}");
        }
    }
}
