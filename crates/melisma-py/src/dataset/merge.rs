//! Shards to one dataset.

use std::path::PathBuf;

use melisma::Existing;
use melisma::dataset::{self, Merge, Missing, StoreKind};
use melisma::runtime::device::available_threads;
use pyo3::prelude::*;

use crate::error::raise;
use crate::exec_context;

/// Merges shards, and returns the number of rows and the missing shards, counted from 1. The policy says whether an
/// existing output is replaced, and whether shards may be missing.
#[pyfunction(name = "_merge")]
pub fn merge_shards(
    py: Python<'_>,
    shards: Vec<PathBuf>,
    output: PathBuf,
    store: Option<&str>,
    policy: (bool, bool),
) -> PyResult<(u64, Vec<u64>)> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let (replaces, allows_missing) = policy;
    let work = || {
        let store = StoreKind::choose(store, &output)?;
        let existing = if replaces { Existing::Replace } else { Existing::Refuse };
        let missing = if allows_missing { Missing::Allow } else { Missing::Refuse };
        let threads = available_threads();
        dataset::merge(
            &Merge::new(&shards, &output, store, budget)
                .with_existing(existing)
                .with_missing(missing)
                .with_threads(threads),
        )
    };
    let merged = py.detach(work).map_err(raise)?;
    Ok((merged.rows, merged.missing))
}
