//! Lines of a server's log, for a function of Python or for its module `logging`.

use melisma::{Error, Result};
use melisma_server::{Level, Log};
use pyo3::prelude::*;

/// The logger of servers whose caller takes no lines.
const LOGGER: &str = "melisma";

/// Calls `write` with each line of at least `level`, `info` unless given; without `write`, the logger gets those of
/// at least `warn`.
pub fn open(py: Python<'_>, level: Option<Level>, write: Option<Py<PyAny>>) -> PyResult<Log> {
    if let Some(write) = write {
        return Ok(Log::new(level.unwrap_or(Level::Info), move |_, line| call(&write, (line,))));
    }
    let logger = py.import("logging")?.call_method1("getLogger", (LOGGER,))?.getattr("log")?.unbind();
    Ok(Log::new(level.unwrap_or(Level::Warn), move |level, line| call(&logger, (number(level), line))))
}

/// Returns the level of that name.
///
/// # Errors
/// There is none.
pub fn level(name: &str) -> Result<Level> {
    Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
        let names = Level::ALL.map(Level::name).join(", ");
        Error::invalid(format!("log_level: expected one of {names}, got {name:?}"))
    })
}

/// Returns the number of a level in Python's `logging`.
fn number(level: Level) -> u8 {
    match level {
        Level::Debug => 10,
        Level::Info => 20,
        Level::Warn => 30,
        Level::Error => 40,
    }
}

/// Calls a function of Python; what it raises is reported and goes no further.
fn call<A>(function: &Py<PyAny>, arguments: A)
where
    A: for<'py> pyo3::call::PyCallArgs<'py>,
{
    // An interpreter that is ending takes no more lines.
    Python::try_attach(|py| {
        if let Err(raised) = function.call1(py, arguments) {
            raised.write_unraisable(py, Some(function.bind(py)));
        }
    });
}
