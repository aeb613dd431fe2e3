//! `trace`: where the time goes.

use std::path::PathBuf;

use melisma::lock::Mutex;
use melisma::output::{self, Existing, OutputFile};
use melisma::trace::{Collector, Detail, Report, Sort};
use melisma::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array;
use crate::error::raise;

/// Spans of all threads, from `with` to its end.
///
/// Args:
///     path: A file for Perfetto, written at the end, in place of one that is there; None writes none.
#[pyclass(name = "Trace", module = "melisma", frozen)]
pub struct PyTrace {
    path: Option<PathBuf>,
    collector: Mutex<Option<Collector>>,
    /// The figures at the end of `with`.
    last: Mutex<Option<Report>>,
}

#[pymethods]
impl PyTrace {
    /// Starts a trace for `with`; `path` gets a file for Perfetto at the end.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> Self {
        Self { path, collector: Mutex::new(None), last: Mutex::new(None) }
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if let Some(path) = &this.get().path {
            // What cannot be written is refused before the work.
            this.py().detach(|| OutputFile::create(path, Existing::Replace).map(drop)).map_err(raise)?;
        }
        let collector = Collector::new();
        collector.time_devices(Detail::Graphs);
        collector.start().map_err(raise)?;
        *this.get().collector.lock() = Some(collector);
        Ok(this)
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        Collector::stop_all();
        let collector = self.collector()?;
        *self.last.lock() = Some(collector.report());
        let Some(path) = &self.path else { return Ok(()) };
        let write = || -> Result<()> {
            let mut file = OutputFile::create(path, Existing::Replace)?;
            collector.write_chrome(&mut file).map_err(|error| output::failed(path, error))?;
            file.commit()
        };
        match py.detach(write) {
            // What was raised inside of `with` is more important.
            Err(_) if raised.iter().any(|part| !part.is_none()) => Ok(()),
            written => written.map_err(raise),
        }
    }

    /// Returns the table of `melisma --profile-table`.
    ///
    /// Args:
    ///     sort: self, total, calls, name, p99, device, bytes or allocated.
    ///     limit: The most rows.
    ///
    /// Returns:
    ///     The table as text.
    #[pyo3(signature = (sort="self", limit=30))]
    fn table(&self, sort: &str, limit: i64) -> PyResult<String> {
        let limit = usize::try_from(limit)
            .map_err(|_| raise(Error::invalid(format!("limit is {limit}")).with_hint("use 0 or more rows")))?;
        let sort = sort.parse().map_err(raise)?;
        self.with_report(|report| report.text(sort, limit))
    }

    /// Returns the figures of the table.
    ///
    /// Returns:
    ///     A dict of them.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::parsed(py, &self.with_report(|report| report.json(Sort::SelfTime, usize::MAX).to_string())?)
    }

    fn __str__(&self) -> PyResult<String> {
        self.table("self", 30)
    }
}

impl PyTrace {
    /// Reads the figures so far, or those at the end of `with`.
    fn with_report<R>(&self, read: impl FnOnce(&Report) -> R) -> PyResult<R> {
        match &*self.last.lock() {
            Some(report) => Ok(read(report)),
            None => Ok(read(&self.collector()?.report())),
        }
    }

    fn collector(&self) -> PyResult<Collector> {
        let collector = self.collector.lock().clone();
        collector.ok_or_else(|| {
            raise(
                Error::invalid("the trace has not started").with_hint("use it as in `with melisma.trace() as trace:`"),
            )
        })
    }
}
