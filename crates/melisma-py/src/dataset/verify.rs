//! Whether a dataset is whole.

use std::path::PathBuf;

use melisma::dataset;
use melisma::runtime::device::available_threads;
use pyo3::prelude::*;
use serde_json::json;

use crate::array;
use crate::error::raise;
use crate::exec_context;

/// Reads every row, and returns what was found.
#[pyfunction(name = "_verify")]
pub fn verify_dataset(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let verified = py.detach(|| dataset::verify(&path, available_threads(), budget)).map_err(raise)?;
    let found = json!({
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
