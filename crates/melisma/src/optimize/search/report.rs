//! The report of a search, for people and for programs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::candidate::Candidate;
use super::measure::{Accuracy, Latency, Measured, Refusal};
use crate::engine::Operator;
use crate::text::size;
use crate::text::table::{Align, Table};
use crate::{Error, Result};

/// The shape of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputShape {
    /// The input's name.
    pub name: String,
    /// The extents of its axes.
    pub shape: Vec<usize>,
}

impl InputShape {
    /// Formats all shapes as `--input` takes them: `mel=1x80x3000`.
    pub fn list(all: &[Self]) -> String {
        let one = |input: &Self| {
            let axes: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
            format!("{}={}", input.name, axes.join("x"))
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// The winner and all candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The name of the model file when the engine was built.
    pub model_name: String,
    /// The input shapes that it was built for.
    pub inputs: Vec<InputShape>,
    /// The winner.
    pub candidate: Candidate,
    /// The version of its engine.
    pub engine_version: String,
    /// Its latency.
    pub latency_seconds: Latency,
    /// Time from the file to the first result, in a process that does nothing else.
    pub first_result_seconds: f64,
    /// Peak memory of a process that runs it.
    pub peak_bytes: Option<u64>,
    /// Its error against FP32.
    pub accuracy: Accuracy,
    /// The engine that computed the FP32 reference.
    pub reference: String,
    /// Size of the model in bytes, before and after.
    pub model_bytes: [u64; 2],
    /// All candidates.
    pub candidates: Vec<Measured>,
    /// Time per operator, slowest first; empty if the engine could not be profiled.
    pub operators: Vec<Operator>,
    /// Suggestions for a faster or smaller engine.
    pub advice: Vec<String>,
}

impl Report {
    /// Reads the report from an entry's plan.
    ///
    /// # Errors
    /// `Corrupt` if the plan is not a report.
    pub fn read(plan: &Value) -> Result<Self> {
        Self::deserialize(plan).map_err(|error| Error::corrupt(format!("the plan of the entry: {error}")))
    }

    pub(super) fn json(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Returns the stable keys of `melisma optimize --json`, except those of the cache.
    pub fn keys(&self) -> Value {
        let Accuracy { max_abs, relative, cosine } = self.accuracy;
        json!({
            "inputs": self.inputs,
            "engine": self.candidate.engine,
            "engine_version": self.engine_version,
            "precision": self.candidate.precision.to_string(),
            "threads": self.candidate.threads,
            "chunk": self.candidate.chunk,
            "latency_seconds": self.latency_seconds,
            "first_result_seconds": self.first_result_seconds,
            "memory_bytes": { "peak": self.peak_bytes },
            "accuracy": { "max_abs": max_abs, "relative": relative, "cosine": cosine, "reference": self.reference },
            "model_bytes": { "before": self.model_bytes[0], "after": self.model_bytes[1] },
            "candidates": self.candidates,
            "operators": self.operators,
            "advice": self.advice,
        })
    }

    /// Returns the report as text for people.
    pub fn text(&self) -> String {
        let Latency { p50, p90, p99, runs } = self.latency_seconds;
        let mut text = format!("best      {}\n", self.candidate);
        text += &format!(
            "latency   p50 {}, p90 {}, p99 {} ({runs} runs)\n",
            milliseconds(p50),
            milliseconds(p90),
            milliseconds(p99)
        );
        text += &format!("memory    peak {}\n", self.peak_bytes.map_or("unknown".to_owned(), size::show));
        text += &format!(
            "accuracy  max_abs {:.3e}, cosine {:.9}, against {} in fp32\n",
            self.accuracy.max_abs, self.accuracy.cosine, self.reference
        );
        let [before, after] = self.model_bytes.map(size::show);
        text += &format!("model     {after}, was {before}\n\n");
        text += &self.candidate_table().text();
        if !self.operators.is_empty() {
            text += &format!("\n{}", self.operator_table().text());
        }
        if !self.advice.is_empty() {
            text += &format!(
                "\n{}\n",
                self.advice.iter().map(|line| format!("advice: {line}")).collect::<Vec<_>>().join("\n")
            );
        }
        text
    }

    fn candidate_table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("candidate", Align::Left),
            right("p50"),
            right("p99"),
            right("first result"),
            right("peak"),
            right("max_abs"),
            ("", Align::Left),
        ]);
        for measured in &self.candidates {
            let chosen = if measured.candidate == self.candidate { "chosen" } else { "" };
            let note = measured.refused.as_ref().map_or(chosen, Refusal::as_str).to_owned();
            let cells = match &measured.outcome {
                Some(outcome) => [
                    milliseconds(outcome.latency_seconds.p50),
                    milliseconds(outcome.latency_seconds.p99),
                    milliseconds(outcome.load_seconds + outcome.first_seconds),
                    outcome.peak_bytes.map_or("unknown".to_owned(), size::show),
                    format!("{:.2e}", outcome.accuracy.max_abs),
                ],
                None => ["-"; 5].map(str::to_owned),
            };
            table.push([measured.candidate.to_string()].into_iter().chain(cells).chain([note]).collect::<Vec<_>>());
        }
        table
    }

    fn operator_table(&self) -> Table {
        let mut table = Table::new([
            ("operator", Align::Left),
            ("calls", Align::Right),
            ("time", Align::Right),
            ("share", Align::Right),
        ]);
        let total: f64 = self.operators.iter().map(|operator| operator.seconds).sum();
        for operator in self.operators.iter().take(12) {
            let share = format!("{:.1} %", 100.0 * operator.seconds / total.max(f64::MIN_POSITIVE));
            let time = milliseconds(operator.seconds);
            table.push([operator.name.clone(), operator.calls.to_string(), time, share]);
        }
        table
    }
}

pub(super) fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let digits = if ms < 10.0 { 3 } else { usize::from(ms < 1000.0) };
    format!("{ms:.digits$} ms")
}
