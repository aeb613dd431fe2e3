//! Shards to one dataset.

use std::path::PathBuf;
use std::sync::Arc;

use melisma::dataset::{self, Counters, Lines, Merge, Missing, StoreKind};
use melisma::{Error, Existing, Result};
use pyo3::prelude::*;

use super::lines::LinesArgs;
use super::{HostArgs, host};
use crate::signal::{self, Stop};

/// Merges shards, and returns the number of rows and the missing shards, counted from 1. The policy says whether an
/// existing output is replaced, and whether shards may be missing; `lines` the form of lines.
#[pyfunction(name = "_merge")]
pub fn merge_shards(
    py: Python<'_>,
    exec: HostArgs<'_>,
    shards: Vec<PathBuf>,
    output: PathBuf,
    store: Option<&str>,
    policy: (bool, bool),
    lines: Option<LinesArgs>,
) -> PyResult<(u64, Vec<u64>)> {
    let exec = host(py, exec)?;
    let (replaces, allows_missing) = policy;
    let work = |stop: &Stop| -> Result<dataset::Merged> {
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
        let request = Merge::new(&shards, &output, store, exec.context.budget())
            .with_lines(lines.map(Lines::from))
            .with_existing(existing)
            .with_missing(missing)
            .with_threads(exec.config.threads.value.count());
        dataset::merge_watched(&request, &Counters::stopped_by(Arc::clone(&stop.0)))
    };
    let merged = signal::watched(py, work, || Ok(()))?;
    Ok((merged.rows, merged.missing))
}
