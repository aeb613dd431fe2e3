//! Waits for a free stream or speaker.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use melisma::lock::Mutex;
use serde_json::{Value, json};

use super::head;
use super::histogram::{Histogram, SECONDS};

/// Why a request gets no stream. A counter starts at zero for each, so that its first one is an increase.
const REASONS: [&str; 4] = ["client_left", "draining", "refused", "timeout"];

/// Requests that waited for a free stream, and those that got none.
#[derive(Debug)]
pub struct QueueMetrics {
    waits: Histogram,
    waited: AtomicU64,
    /// By reason.
    given_up: Mutex<BTreeMap<&'static str, u64>>,
}

impl Default for QueueMetrics {
    fn default() -> Self {
        let given_up = BTreeMap::from(REASONS.map(|reason| (reason, 0)));
        Self { waits: Histogram::new(SECONDS), waited: AtomicU64::new(0), given_up: Mutex::new(given_up) }
    }
}

/// One wait, counted when it is dropped.
#[derive(Debug)]
pub struct QueueWait<'a> {
    metrics: &'a QueueMetrics,
    start: Instant,
    /// Why the request got no stream; `None` if it got one.
    pub reason: Option<&'static str>,
}

impl QueueMetrics {
    /// Begins a wait. If nothing else is said of it, its client left.
    pub fn wait(&self) -> QueueWait<'_> {
        QueueWait { metrics: self, start: Instant::now(), reason: Some("client_left") }
    }

    /// Counts a request that got no stream.
    pub fn gave_up(&self, reason: &'static str) {
        *self.given_up.lock().entry(reason).or_default() += 1;
    }

    /// Returns `{"waited", "given_up": {REASON: N}, "p50_seconds", "p99_seconds"}`.
    pub fn json(&self) -> Value {
        let [p50, p99] = [0.5, 0.99].map(|share| self.waits.quantile(share));
        let (waited, given_up) = (self.waited.load(Relaxed), self.given_up.lock());
        json!({"waited": waited, "given_up": *given_up, "p50_seconds": p50, "p99_seconds": p99})
    }

    /// Writes Prometheus' text format.
    pub(super) fn write(&self, text: &mut String) {
        head(text, "queue_wait_seconds", "histogram", "Time that requests waited for a free stream or speaker.");
        self.waits.write("melisma_queue_wait_seconds", "", text);
        head(text, "queue_waited_total", "counter", "Waits that ended with a stream or speaker.");
        let _ = writeln!(text, "melisma_queue_waited_total {}", self.waited.load(Relaxed));
        head(text, "queue_given_up_total", "counter", "Waits that ended without one, by reason.");
        for (reason, n) in &*self.given_up.lock() {
            let _ = writeln!(text, "melisma_queue_given_up_total{{reason=\"{reason}\"}} {n}");
        }
    }
}

impl Drop for QueueWait<'_> {
    fn drop(&mut self) {
        self.metrics.waits.add(self.start.elapsed().as_secs_f64());
        match self.reason {
            None => drop(self.metrics.waited.fetch_add(1, Relaxed)),
            Some(reason) => self.metrics.gave_up(reason),
        }
    }
}
