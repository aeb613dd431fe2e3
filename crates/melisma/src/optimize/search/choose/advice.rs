//! Suggestions for a faster or smaller engine, based on the measurements.

use super::Selection;
use super::pick::{is_clearly_better, ranked};
use crate::config::precision::Format;
use crate::engine::{Operator, onnxruntime, rten};
use crate::optimize::search::Objective;
use crate::optimize::search::candidate::Wanted;
use crate::optimize::search::candidate::bound::{Bound, Peak};
use crate::optimize::search::candidate::chunk::{Chunk, Splitting};
use crate::optimize::search::measure::{Measured, milliseconds};

/// Advice names an operator that takes more than this share of the time.
const SHARE: f64 = 0.4;

pub(super) fn advise(
    selection: &Selection<'_>,
    (winner, peak): (&Measured, Option<Peak>),
    all: &[Measured],
) -> Vec<String> {
    let mut advice: Vec<String> = adapted(selection, winner, all).into_iter().collect();
    let request = selection.request;
    if request.requirements.engine.is_none()
        && let Err(error) = onnxruntime::find()
    {
        advice.push(format!("{error}; with it there is one more engine to choose from: {}", onnxruntime::how_to_get()));
    }
    if request.requirements.precision == Wanted::Fp32 {
        advice.push("precision was not lowered; the precision `auto` also measures fp16 and int8".to_owned());
    }
    advice.extend(too_little(selection.objective(), winner, all));
    let Some(p50) = winner.p50() else { return advice };
    let embedded = all.iter().find(|other| other.candidate.engine == rten::NAME && other.p50().is_some());
    if let Some(other) = embedded.filter(|_| winner.candidate.engine.is_onnxruntime())
        && let Some(embedded) = other.p50().filter(|embedded| *embedded < 1.05 * p50)
    {
        advice.push(format!("{} takes {} and needs no library", other.candidate, milliseconds(embedded)));
    }
    if let (Some(bytes), Some(bound)) = (peak.map(Peak::allocated), selection.bound())
        && bytes > bound.bytes() / 10 * 8
    {
        advice.push(format!("memory is short: {}", bound.refusal("it", bytes)));
    }
    advice
}

/// Returns a lower precision that is better, but not by enough to win.
fn too_little(objective: Objective, winner: &Measured, all: &[Measured]) -> Option<String> {
    let lower = ranked(objective, all).into_iter().find(|measured| measured.candidate.precision != Format::Fp32)?;
    let (low, high) = (lower.figure(objective)?, winner.figure(objective)?);
    let is_clear = is_clearly_better(objective, lower, winner);
    if winner.candidate.precision == lower.candidate.precision || low >= high || is_clear {
        return None;
    }
    let gain = Some(100.0 * (1.0 - low / high)).filter(|gain| *gain >= 1.0)?;
    let better = match objective {
        Objective::Memory => format!("takes {gain:.0} % less memory"),
        Objective::P50 | Objective::P99 | Objective::First => format!("is {gain:.0} % faster"),
    };
    Some(format!("{} {better}; a lower precision needs 10 % and more than the noise", lower.candidate))
}

/// Returns what changed because the model does not fit into memory as it is.
fn adapted(selection: &Selection<'_>, winner: &Measured, all: &[Measured]) -> Option<String> {
    let bound = selection.bound()?;
    let is_whole = |measured: &&Measured| {
        measured.candidate.precision == Format::Fp32 && !matches!(measured.candidate.chunk, Chunk::Of(_))
    };
    let whole = all.iter().filter(is_whole).find(|measured| measured.is_over_memory())?;
    let how = match (winner.candidate.chunk, winner.candidate.precision) {
        (Chunk::Of(len), Format::Fp32) => format!("in pieces of {len}"),
        (Chunk::Of(len), format) => format!("in pieces of {len}, in {format}"),
        (_, Format::Fp32) => return None,
        (_, format) => format!("in {format}"),
    };
    let more = match bound {
        _ if selection.splitting() != Splitting::AsNeeded => "",
        Bound::Limit(_) => "; a higher memory limit may be faster",
        Bound::Free(_) => "; once more memory is free, clear the cache and optimize again",
    };
    Some(format!("{} does not fit whole, {bound}: the engine works {how}{more}", whole.candidate.engine))
}

pub(super) fn of_operators(operators: &[Operator]) -> Option<String> {
    let total: f64 = operators.iter().map(|operator| operator.seconds).sum();
    let first = operators.first().filter(|first| first.seconds > SHARE * total)?;
    Some(format!("{} takes {:.0} % of the time", first.name, 100.0 * first.seconds / total))
}
