//! What may make it better, from what was measured.

use super::Measured;
use super::bound::Bound;
use super::candidate::Wanted;
use super::chunk::{Chunk, Splitting};
use super::report::milliseconds;
use super::select::Workshop;
use crate::optimize::engine::{Operator, onnxruntime};
use crate::runtime::precision::Format;
use crate::runtime::size;

/// An operator above this share of the time is named.
const SHARE: f64 = 0.4;

pub(super) fn advise(workshop: &Workshop<'_>, winner: &Measured, all: &[Measured]) -> Vec<String> {
    let mut advice: Vec<String> = adapted(workshop, winner, all).into_iter().collect();
    let request = workshop.request;
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
    if let (Some(peak), Some(bound)) = (peak, workshop.bound())
        && peak > bound.bytes() / 10 * 8
    {
        advice.push(format!("memory is short: it takes {}, {bound}", size::show(peak)));
    }
    advice
}

/// What was changed because the memory did not hold the model as it is.
fn adapted(workshop: &Workshop<'_>, winner: &Measured, all: &[Measured]) -> Option<String> {
    let bound = workshop.bound()?;
    let is_whole = |measured: &&Measured| {
        measured.candidate.precision == Format::Fp32 && !matches!(measured.candidate.chunk, Chunk::Of(_))
    };
    let whole = all.iter().filter(is_whole).find(|measured| workshop.is_over(measured))?;
    let how = match (winner.candidate.chunk, winner.candidate.precision) {
        (Chunk::Of(len), Format::Fp32) => format!("in pieces of {len}"),
        (Chunk::Of(len), format) => format!("in pieces of {len}, in {format}"),
        (_, Format::Fp32) => return None,
        (_, format) => format!("in {format}"),
    };
    let more = match bound {
        _ if workshop.splitting() != Splitting::AsNeeded => "",
        Bound::Limit(_) => "; a higher --memory-limit may be faster",
        Bound::Free(_) => "; with more memory free, optimize again with `melisma cache clear` before it",
    };
    Some(format!("{} does not fit whole, {bound}: the engine works {how}{more}", whole.candidate.engine))
}

pub(super) fn of_operators(operators: &[Operator]) -> Option<String> {
    let total: f64 = operators.iter().map(|operator| operator.seconds).sum();
    let first = operators.first().filter(|first| first.seconds > SHARE * total)?;
    Some(format!("{} takes {:.0} % of the time", first.name, 100.0 * first.seconds / total))
}
