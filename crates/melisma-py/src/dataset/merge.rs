//! Shards to one dataset.

use std::path::PathBuf;

use melisma::dataset::{self, Lines, Merge, Missing, StoreKind};
use melisma::runtime::device::available_threads;
use melisma::{Error, Existing};
use pyo3::prelude::*;

use super::lines::LinesArgs;
use crate::error::raise;
use crate::exec_context;

/// Merges shards, and returns the number of rows and the missing shards, counted from 1. The policy says whether an
/// existing output is replaced, and whether shards may be missing; `lines` the form of lines.
#[pyfunction(name = "_merge")]
pub fn merge_shards(
    py: Python<'_>,
    shards: Vec<PathBuf>,
    output: PathBuf,
    store: Option<&str>,
    policy: (bool, bool),
    lines: Option<LinesArgs>,
) -> PyResult<(u64, Vec<u64>)> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let (replaces, allows_missing) = policy;
    let work = || {
        let store = match (Lines::is_name(&output), store) {
            (true, None) => StoreKind::Safetensors,
            (true, Some(store)) => {
                return Err(Error::invalid(format!("{}: lines have no store `{store}`", output.display()))
                    .with_hint("leave out `store`, or use another suffix"));
            }
            (false, store) => StoreKind::choose(store, &output)?,
        };
        let existing = if replaces { Existing::Replace } else { Existing::Refuse };
        let missing = if allows_missing { Missing::Allow } else { Missing::Refuse };
        let threads = available_threads();
        dataset::merge(
            &Merge::new(&shards, &output, store, budget)
                .with_lines(lines.map(Lines::from))
                .with_existing(existing)
                .with_missing(missing)
                .with_threads(threads),
        )
    };
    let merged = py.detach(work).map_err(raise)?;
    Ok((merged.rows, merged.missing))
}
