//! The report of a search, for people and for programs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::candidate::Candidate;
use super::measure::{Accuracy, Latency, Measured, Refusal, milliseconds};
use super::{Baseline, Evidence, InputValues, Objective};
use crate::engine::{EngineName, Operator};
use crate::text::size;
use crate::text::table::{Align, Table, one_line};
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

/// Where the time of a run goes in one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineOperators {
    /// The engine.
    pub engine: EngineName,
    /// Time per operator, slowest first.
    pub operators: Vec<Operator>,
    /// Why there are none.
    pub missing: Option<String>,
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
    /// Peak memory of a process that runs it, with the program itself.
    pub peak_bytes: Option<u64>,
    /// The part of it that the program itself takes, without a model.
    pub program_bytes: Option<u64>,
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
    /// Why there are none.
    pub operators_missing: Option<String>,
    /// The same for the other engines.
    pub other_operators: Vec<EngineOperators>,
    /// How the values of each input were made.
    pub input_values: Vec<InputValues>,
    /// What the results rest on.
    pub evidence: Evidence,
    /// What is wrong with the outputs, if generated inputs make them the same everywhere.
    pub degenerate: Option<String>,
    /// What the winner is best at.
    pub objective: Objective,
    /// The default that the winner is compared with.
    pub baseline: Baseline,
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

    /// Returns what the engine allocated, beside the program itself: what a memory limit counts. The whole peak if the
    /// program's part is unknown.
    pub fn allocated_bytes(&self) -> Option<u64> {
        Some(self.peak_bytes?.saturating_sub(self.program_bytes.unwrap_or(0)))
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
            "memory_bytes": {
                "allocated": self.allocated_bytes(), "program": self.program_bytes, "peak": self.peak_bytes,
            },
            "accuracy": {
                "max_abs": max_abs, "relative": relative, "cosine": cosine, "reference": self.reference,
                "independent": self.is_independent(),
            },
            "input_values": self.input_values,
            "evidence": self.evidence,
            "degenerate": self.degenerate,
            "model_bytes": { "before": self.model_bytes[0], "after": self.model_bytes[1] },
            "candidates": self.candidates,
            "operators": self.operators,
            "operators_missing": self.operators_missing,
            "other_operators": self.other_operators,
            "objective": self.objective,
            "comparison": self.comparison_keys(),
            "advice": self.advice,
        })
    }

    /// Returns the report as text for people.
    pub fn text(&self) -> String {
        let mut text = format!("best      {}, {}\n", self.candidate, self.objective.describe());
        text += &format!("latency   {}\n", self.latency_seconds);
        let program = self.program_bytes.map(|bytes| format!(", beside {} of the program itself", size::show(bytes)));
        let allocated = self.allocated_bytes().map_or("unknown".to_owned(), size::show);
        text += &format!("memory    {allocated}{}\n", program.unwrap_or_default());
        text += &format!("accuracy  {}\n", self.accuracy_text());
        let [before, after] = self.model_bytes.map(size::show);
        text += &format!("model     {after}, was {before}\n");
        for input in &self.input_values {
            text += &format!("input     {}: {}\n", one_line(&input.name), one_line(&input.description));
        }
        if let Some(degenerate) = &self.degenerate {
            text += &format!("outputs   {}: these figures say little\n", one_line(degenerate));
        }
        text.push('\n');
        text += &self.candidate_table().text();
        text += &operator_text(self.candidate.engine, (&self.operators, 12), self.operators_missing.as_deref());
        for other in &self.other_operators {
            text += &operator_text(other.engine, (&other.operators, 4), other.missing.as_deref());
        }
        if !self.advice.is_empty() {
            text += &format!(
                "\n{}\n",
                self.advice.iter().map(|line| format!("advice: {line}")).collect::<Vec<_>>().join("\n")
            );
        }
        text
    }

    /// Returns one line per candidate. Those that computed the reference have no difference from it.
    pub fn candidate_table(&self) -> Table {
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
                    milliseconds(outcome.first_result_seconds()),
                    outcome.peak_bytes.map_or("unknown".to_owned(), size::show),
                    match self.is_of_reference(&measured.candidate) && outcome.accuracy.max_abs == 0.0 {
                        true => "-".to_owned(),
                        false => format!("{:.2e}", outcome.accuracy.max_abs),
                    },
                ],
                None => ["-"; 5].map(str::to_owned),
            };
            table.push([measured.candidate.to_string()].into_iter().chain(cells).chain([note]).collect::<Vec<_>>());
        }
        table
    }
}

/// Returns the table of the slowest operators of an engine, at most `most`, or why there is none.
fn operator_text(engine: EngineName, (operators, most): (&[Operator], usize), missing: Option<&str>) -> String {
    if operators.is_empty() {
        return format!("\noperators of {engine}: none, {}\n", missing.unwrap_or("they are unknown"));
    }
    let name = format!("operator of {engine}");
    let right = |name| (name, Align::Right);
    let mut table = Table::new([(name.as_str(), Align::Left), right("calls"), right("time"), right("share")]);
    let total: f64 = operators.iter().map(|operator| operator.seconds).sum();
    for operator in operators.iter().take(most) {
        let share = format!("{:.1} %", 100.0 * operator.seconds / total.max(f64::MIN_POSITIVE));
        let time = milliseconds(operator.seconds);
        table.push([operator.name.clone(), operator.calls.to_string(), time, share]);
    }
    format!("\n{}", table.text())
}
