//! The answer of a search: how much better the winner is than the default.

use serde_json::{Value, json};

use super::measure::{Outcome, milliseconds};
use super::{Baseline, Candidate, Chunk, Objective, Report};
use crate::config::Threads;
use crate::config::precision::Format;
use crate::engine::EngineName;
use crate::text::size;

/// The winner's figure beside that of the default.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The default's figure divided by the winner's: above 1 the winner is better.
    pub ratio: f64,
    /// Whether the two differ by more than the spread of either; never if the winner is the default.
    pub is_beyond_spread: bool,
}

impl Report {
    /// Compares the winner with the default, by the objective of the search; `None` if the default
    /// did not run.
    pub fn comparison(&self) -> Option<Comparison> {
        let [ours, theirs] = self.outcomes()?;
        let ratio = self.objective.figure(&theirs) / self.objective.figure(&ours);
        let is_beyond_spread = !self.is_default() && self.objective.differ([&ours, &theirs]);
        ratio.is_finite().then_some(Comparison { ratio, is_beyond_spread })
    }

    /// Returns the answer in one line: how much better the winner is than the default on this
    /// machine, or that the default is as good.
    pub fn answer(&self) -> String {
        let name = self.baseline.describe();
        let Some((Comparison { ratio, is_beyond_spread }, outcomes)) = self.comparison().zip(self.outcomes()) else {
            let reason = self.baseline.refused.as_deref().unwrap_or("a figure is unknown");
            return format!("no comparison with {name}: {reason}");
        };
        let both = |show: &dyn Fn(&Outcome) -> String| format!("{} against {}", show(&outcomes[0]), show(&outcomes[1]));
        let p50 = format!("p50 {}", both(&|outcome| milliseconds(outcome.latency_seconds.p50)));
        let p99 = format!("p99 {}", both(&|outcome| milliseconds(outcome.latency_seconds.p99)));
        let figures = match self.objective {
            Objective::P50 => format!("{p50}; {p99}"),
            Objective::P99 => format!("{p99}; {p50}"),
            Objective::Memory => {
                let peak = both(&|outcome| outcome.peak_bytes.map_or_else(|| "unknown".to_owned(), size::show));
                format!("peak {peak}; {p50}")
            }
            Objective::First => format!("{}; {p50}", both(&|outcome| milliseconds(outcome.first_result_seconds()))),
        };
        let spread = match (self.objective, is_beyond_spread) {
            _ if self.is_default() => "the same engine with the same options",
            (Objective::P50 | Objective::P99, true) => "beyond the spread",
            (Objective::P50 | Objective::P99, false) => "within the spread",
            (Objective::Memory | Objective::First, true) => "beyond the 10 % by which single figures vary",
            (Objective::Memory | Objective::First, false) => "within 10 %",
        };
        let gain = match self.objective {
            Objective::Memory => format!("{:.0} %", 100.0 / ratio),
            Objective::P50 | Objective::P99 | Objective::First => factor(ratio),
        };
        let place = match self.objective {
            Objective::First => "on this machine to the first result",
            Objective::P50 | Objective::P99 | Objective::Memory => "on this machine",
        };
        if is_beyond_spread && ratio > 1.0 {
            let of = if self.objective == Objective::Memory { " of the memory of" } else { "" };
            return format!("{gain}{of} {name} {place} ({figures}; {spread})");
        }
        let verdict = match (self.objective, is_beyond_spread) {
            (Objective::Memory, true) => "needs less memory",
            (Objective::Memory, false) => "needs no more memory",
            (_, true) => "is faster",
            (_, false) => "is as fast",
        };
        format!("{name} {verdict} {place} ({figures}; {gain}, {spread})")
    }

    /// Returns the stable keys of the comparison.
    pub(super) fn comparison_keys(&self) -> Value {
        let Baseline { engine, engine_version, threads, outcome, refused } = &self.baseline;
        let compared = self.comparison();
        json!({
            "engine": engine,
            "engine_version": engine_version,
            "threads": Some(threads).filter(|threads| **threads > 0),
            "latency_seconds": outcome.map(|outcome| outcome.latency_seconds),
            "first_result_seconds": outcome.map(|outcome| outcome.first_result_seconds()),
            "memory_bytes": { "peak": outcome.and_then(|outcome| outcome.peak_bytes) },
            "refused": refused,
            "ratio": compared.map(|compared| compared.ratio),
            "beyond_spread": compared.map(|compared| compared.is_beyond_spread),
            "answer": self.answer(),
        })
    }

    /// Returns whether the winner is ONNX Runtime with its default options. With one thread per core it counts as
    /// such, because that is what the library chooses.
    fn is_default(&self) -> bool {
        let Candidate { engine, precision, threads, chunk } = &self.candidate;
        *engine == EngineName::Onnxruntime
            && self.baseline.engine == *engine
            && *precision == Format::Fp32
            && *chunk == Chunk::Own
            && [0, Threads::Auto.count()].contains(threads)
    }

    /// Returns the measurements of the winner and of the default.
    fn outcomes(&self) -> Option<[Outcome; 2]> {
        let own = self.candidates.iter().find(|measured| measured.candidate == self.candidate)?;
        Some([own.outcome?, self.baseline.outcome?])
    }
}

/// Formats `1.5x`; near 1 with two digits.
fn factor(ratio: f64) -> String {
    let digits = if (0.9..1.1).contains(&ratio) { 2 } else { usize::from(ratio < 100.0) };
    format!("{ratio:.digits$}x")
}
