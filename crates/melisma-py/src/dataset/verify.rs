//! Whether a dataset is whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::Result;
use melisma::dataset::store::Store;
use melisma::dataset::{self, Counters, Feature, Inputs, Lines, Repaired, Request, Verified};
use pyo3::prelude::*;
use serde_json::json;

use super::{HostArgs, host};
use crate::array;
use crate::exec_context::ExecContext;
use crate::signal::{self, Stop};

/// Reads every row, and returns what was found.
#[pyfunction(name = "_verify")]
pub fn verify_dataset<'py>(py: Python<'py>, exec: HostArgs<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let exec = host(py, exec)?;
    let threads = exec.config.threads.value.count();
    let work = |stop: &Stop| {
        let counters = Counters::stopped_by(Arc::clone(&stop.0));
        dataset::verify_watched(&path, threads, exec.context.budget(), &counters)
    };
    let verified = signal::watched(py, work, || Ok(()))?;
    shown(py, &verified, &[])
}

/// Rebuilds the damaged rows of the dataset at a path from `inputs`.
pub(super) fn repair<'py>(
    py: Python<'py>,
    (inputs, path): (&Inputs, &Path),
    (exec, feature): (&ExecContext, &Feature),
) -> PyResult<Bound<'py, PyAny>> {
    let work = |stop: &Stop| -> Result<Repaired> {
        let mut feature = feature.clone();
        if let (Feature::Tokens(tokens), false) = (&feature, Lines::is_name(path)) {
            let layout = Store::open(path)?.layout;
            feature = tokens.clone().like(layout.text("config").unwrap_or_default())?.into();
        }
        let request = Request::new_in(&exec.context, inputs, path, feature);
        let counters = Counters::stopped_by(Arc::clone(&stop.0));
        request.with_threads(exec.config.threads.value.count()).repair_watched(&counters)
    };
    let Repaired { rows, verified, .. } = signal::watched(py, work, || Ok(()))?;
    shown(py, &verified, &rows)
}

fn shown<'py>(py: Python<'py>, verified: &Verified, rebuilt: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    let found = json!({
        "rebuilt": rebuilt,
        "rows": verified.rows,
        "bytes": verified.bytes,
        "zero_filled": verified.zero_filled,
        "missing": verified.pending,
        "damaged": verified.damaged,
        "first_damaged": verified.first_damaged,
        "first_damaged_files": verified.first_files,
        "missing_origin": verified.missing_origin.as_ref().map(|path| path.display().to_string()),
        "problem": verified.check().err().map(|error| error.to_string()),
    });
    array::parsed(py, &found.to_string())
}
