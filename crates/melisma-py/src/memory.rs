//! `MemoryTracker`: current bytes, peak and limit, by named scope.

use melisma::Device;
use melisma::config::Config;
use melisma::lock::Mutex;
use melisma::runtime::memory::{self, Space};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::settings;

/// Memory held by tensors and buffers, by named scope.
#[pyclass(module = "melisma", frozen, subclass)]
pub struct MemoryTracker {
    pub tracker: memory::MemoryTracker,
}

#[pymethods]
impl MemoryTracker {
    /// A tracker of its own, under `memory_limit`; `TensorOptimizer.memory` is that of an optimizer.
    #[new]
    #[pyo3(signature = (memory_limit=None))]
    fn new(memory_limit: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let sources = settings::sources(None, None, memory_limit)?;
        let make = || {
            let limit = Config::load(&sources)?.memory_limit.value;
            Ok(memory::MemoryTracker::new(memory::budget(limit, &Device::cpu()?)))
        };
        Ok(Self { tracker: make().map_err(raise)? })
    }

    /// A scope over memory.
    ///
    /// Args:
    ///     name: Its name in the table.
    ///
    /// Returns:
    ///     The scope, for `with`.
    #[pyo3(signature = (name=""))]
    fn track(&self, name: &str) -> Track {
        let name = if name.is_empty() { "tracked" } else { name }.to_owned();
        Track { tracker: self.tracker.clone(), name, open: Mutex::new(None) }
    }

    /// The table of everything, as it is now.
    ///
    /// Returns:
    ///     The table as text.
    fn summary(&self) -> String {
        self.tracker.summary().to_string()
    }

    /// The scopes that were left.
    ///
    /// Returns:
    ///     The calls of each by name, and the most bytes held inside of it in host, pinned and device memory.
    fn scopes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let scopes = PyDict::new(py);
        for (name, used) in self.tracker.scopes() {
            let row = PyDict::new(py);
            row.set_item("calls", used.calls)?;
            for (space, bytes) in Space::ALL.iter().zip(used.peak) {
                row.set_item(format!("{}_peak", space.name()), bytes)?;
            }
            scopes.set_item(name, row)?;
        }
        Ok(scopes)
    }

    /// Bytes currently held in host memory.
    #[getter]
    fn host_bytes(&self) -> u64 {
        self.tracker.budget().usage(Space::Host).now
    }

    /// The limit on host memory in bytes, or None.
    #[getter]
    fn limit(&self) -> Option<u64> {
        self.tracker.budget().limit(Space::Host)
    }

    fn __str__(&self) -> String {
        self.summary()
    }
}

/// A memory scope as a context manager.
#[pyclass(module = "melisma", frozen)]
pub struct Track {
    tracker: memory::MemoryTracker,
    name: String,
    open: Mutex<Option<memory::Scope>>,
}

#[pymethods]
impl Track {
    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let track = this.get();
        let mut open = track.open.lock();
        if open.is_some() {
            return Err(raise(melisma::Error::invalid(format!("the scope `{}` is open already", track.name))));
        }
        *open = Some(track.tracker.scope(track.name.clone()));
        drop(open);
        Ok(this)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, pyo3::types::PyTuple>) {
        drop(self.open.lock().take());
    }
}
