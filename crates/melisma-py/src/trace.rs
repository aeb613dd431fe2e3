//! `trace`: where the time goes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use melisma::output::{self, Existing, OutputFile};
use melisma::trace::{Collector, Detail, Sort};
use melisma::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array;
use crate::error::raise;

/// Spans of all threads, from `with` to its end.
#[pyclass(name = "Trace", module = "melisma", frozen)]
pub struct PyTrace {
    path: Option<PathBuf>,
    collector: Mutex<Option<Collector>>,
}

#[pymethods]
impl PyTrace {
    /// A trace for `with`; `path` gets a file for Perfetto at the end.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> Self {
        Self { path, collector: Mutex::new(None) }
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let collector = Collector::new();
        collector.time_devices(Detail::Graphs);
        collector.start().map_err(raise)?;
        *this.get().collector.lock().unwrap_or_else(PoisonError::into_inner) = Some(collector);
        Ok(this)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        Collector::stop_all();
        let Some(path) = &self.path else { return Ok(()) };
        let collector = self.collector()?;
        let write = || -> Result<()> {
            let mut file = OutputFile::create(path, Existing::Replace)?;
            collector.write_chrome(&mut file).map_err(|error| output::failed(path, error))?;
            file.commit()
        };
        py.detach(write).map_err(raise)
    }

    /// The table of `melisma --profile`, sorted by self, total, calls, name, p99, device, bytes or allocated.
    #[pyo3(signature = (sort="self", limit=30))]
    fn table(&self, sort: &str, limit: usize) -> PyResult<String> {
        Ok(self.collector()?.report().text(sort.parse().map_err(raise)?, limit))
    }

    /// The same figures as a dict.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::parsed(py, &self.collector()?.report().json(Sort::SelfTime, usize::MAX).to_string())
    }

    fn __str__(&self) -> PyResult<String> {
        self.table("self", 30)
    }
}

impl PyTrace {
    fn collector(&self) -> PyResult<Collector> {
        let collector = self.collector.lock().unwrap_or_else(PoisonError::into_inner).clone();
        collector.ok_or_else(|| {
            raise(
                Error::invalid("the trace has not started").with_hint("use it as in `with melisma.trace() as trace:`"),
            )
        })
    }
}
