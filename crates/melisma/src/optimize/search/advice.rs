//! What may make it better, from what was measured.

use super::candidate::Wanted;
use super::report::{Operator, milliseconds};
use super::{Measured, Request};
use crate::optimize::engine::onnxruntime;
use crate::runtime::{Config, size};

/// An operator above this share of the time is named.
const SHARE: f64 = 0.4;

pub(super) fn advise(config: &Config, request: &Request, winner: &Measured, all: &[Measured]) -> Vec<String> {
    let mut advice = Vec::new();
    if request.engine.is_none()
        && let Err(error) = onnxruntime::find()
    {
        advice.push(format!("{error}; with it there is one more engine to choose from: pip install onnxruntime"));
    }
    if request.precision == Wanted::Fp32 {
        advice.push("precision was not lowered; --precision auto also measures fp16 and int8".to_owned());
    }
    let Some(p50) = winner.p50() else { return advice };
    let embedded = all.iter().find(|other| other.candidate.engine == "rten" && other.p50().is_some());
    if let Some(other) = embedded.filter(|_| winner.candidate.engine.starts_with("onnxruntime"))
        && let Some(embedded) = other.p50().filter(|embedded| *embedded < 1.05 * p50)
    {
        advice.push(format!("{} takes {} and needs no library", other.candidate, milliseconds(embedded)));
    }
    let peak = winner.outcome.and_then(|outcome| outcome.peak_bytes);
    if let (Some(peak), Some(limit)) = (peak, config.memory_limit.value.bytes())
        && peak > limit / 10 * 8
    {
        advice.push(format!("memory is short: {} of {}", size::show(peak), size::show(limit)));
    }
    advice
}

pub(super) fn of_operators(operators: &[Operator]) -> Option<String> {
    let total: f64 = operators.iter().map(|operator| operator.seconds).sum();
    let first = operators.first().filter(|first| first.seconds > SHARE * total)?;
    Some(format!("{} takes {:.0} % of the time", first.name, 100.0 * first.seconds / total))
}
