//! Repeated runs, for their times.

use std::time::Instant;

use serde_json::{Value as Json, json};

use super::Chosen;
use crate::Result;
use crate::format::Value;
use crate::optimize::search::Latency;
use crate::optimize::search::measure::milliseconds;

/// The outputs and the times of a model that ran several times on the same inputs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepeatedRun {
    /// The outputs of the first run, in order.
    pub outputs: Vec<Value>,
    /// The time of the first run, which includes all one-time costs.
    pub first_seconds: f64,
    /// The times of the runs after it, without the start of a process; `None` if there were none.
    pub latency_seconds: Option<Latency>,
}

impl Chosen {
    /// Runs once, then `repeat` times more.
    ///
    /// # Errors
    /// As [`Engine::run`](crate::engine::Engine::run).
    pub fn run_repeated(&mut self, inputs: &[Value], repeat: usize) -> Result<RepeatedRun> {
        let begin = Instant::now();
        let outputs = self.engine.run(inputs)?;
        let first_seconds = begin.elapsed().as_secs_f64();
        let seconds = self.engine.repeat(inputs, repeat, &|| Ok(()))?;
        let latency_seconds = (!seconds.is_empty()).then(|| Latency::of(&seconds));
        Ok(RepeatedRun { outputs, first_seconds, latency_seconds })
    }
}

impl RepeatedRun {
    /// Returns the times as in `melisma run --json`.
    pub fn keys(&self) -> Json {
        json!({ "first_seconds": self.first_seconds, "latency_seconds": self.latency_seconds })
    }

    /// Returns the times as text.
    pub fn text(&self) -> String {
        let first = format!("first run {}", milliseconds(self.first_seconds));
        match &self.latency_seconds {
            Some(latency) => format!("{first}; then {latency}"),
            None => first,
        }
    }
}
