//! Converts errors to exceptions of the classes in `melisma/_error.py`.

use melisma::Error;
use pyo3::prelude::*;

use crate::remedy;

/// Returns the exception for `error`.
pub fn raise(error: Error) -> PyErr {
    Python::attach(|py| exception(py, &error).unwrap_or_else(|failed| failed))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let classes = py.import("melisma._error")?;
    let code = error.io_source().and_then(std::io::Error::raw_os_error);
    let arguments = (error.kind().name(), error.to_string(), remedy::hint(error), code);
    Ok(PyErr::from_value(classes.call_method1("of_kind", arguments)?))
}
