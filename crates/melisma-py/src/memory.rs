//! `MemoryTracker`: current bytes, peak and limit, by named scope; beside what the library counts, the memory of torch's
//! CUDA allocator and the growth of the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use melisma::config::Config;
use melisma::lock::Mutex;
use melisma::runtime::memory::{self, Space};
use melisma::runtime::resident::Resident;
use melisma::text::size;
use melisma::{Budget, Error};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::local::Local;
use crate::settings;

/// Memory held by tensors and buffers, by named scope.
#[pyclass(module = "melisma", frozen, subclass)]
pub struct MemoryTracker {
    tracker: memory::MemoryTracker,
    limit: Option<u64>,
    others: Others,
}

/// What the library does not count, by scope.
pub type Others = Arc<Mutex<BTreeMap<String, Other>>>;

/// The most bytes of all calls of a scope.
#[derive(Clone, Copy, Default)]
pub struct Other {
    /// Held by torch's CUDA allocator.
    torch: u64,
    /// Added to the physical memory of the process.
    resident: u64,
}

impl MemoryTracker {
    /// Creates a tracker of what `tracker` counts, and of `others`.
    pub fn of(tracker: memory::MemoryTracker, others: Others) -> Self {
        let limit = tracker.budget().limit(Space::Host);
        Self { tracker, limit, others }
    }
}

#[pymethods]
impl MemoryTracker {
    /// Tracks all that the package holds in this process; `TensorOptimizer.memory` is that of an optimizer.
    #[new]
    #[pyo3(signature = (memory_limit=None))]
    fn new(memory_limit: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let sources = settings::sources(None, None, memory_limit)?;
        let limit = Config::load(&sources).map_err(raise)?.memory_limit.value.bytes();
        Ok(Self { limit, ..Self::of(Budget::process().clone().into(), Others::default()) })
    }

    /// Opens a scope over memory.
    ///
    /// Args:
    ///     name: Its name in the table.
    ///
    /// Returns:
    ///     The scope, for `with`.
    #[pyo3(signature = (name=""))]
    fn track(&self, name: &str) -> Track {
        let name = if name.is_empty() { "tracked" } else { name }.to_owned();
        Track { tracker: self.tracker.clone(), others: Arc::clone(&self.others), name, open: Mutex::new(None) }
    }

    /// Returns the table of everything, as it is now.
    ///
    /// Returns:
    ///     The table as text.
    fn summary(&self) -> String {
        let mut summary = self.tracker.summary();
        summary.limit = summary.limit.map(|own| own.or(self.limit));
        let others = self.others.lock().clone();
        let mut table = summary.table();
        let column = |figure: fn(&Other) -> u64| {
            let cells = summary.scopes.keys().map(|name| others.get(name).map_or(0, figure));
            std::iter::once("-".to_owned()).chain(cells.map(size::show)).collect::<Vec<_>>()
        };
        table.add_column("torch peak", column(|other| other.torch));
        table.add_column("resident growth", column(|other| other.resident));
        table.text() + &summary.footer() + "torch peak and resident growth also count foreign code\n"
    }

    /// Returns the table of everything, as it is now.
    ///
    /// Returns:
    ///     The table as text.
    fn get_memory_summary(&self) -> String {
        self.summary()
    }

    /// Returns the scopes that were left.
    ///
    /// Returns:
    ///     The calls of each by name; the most bytes that the package held inside of it in host, pinned and device
    ///     memory, and torch's CUDA allocator; and the most by which the process grew.
    fn scopes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let scopes = PyDict::new(py);
        for (name, used) in self.tracker.scopes() {
            let row = PyDict::new(py);
            row.set_item("calls", used.calls)?;
            for (space, bytes) in Space::ALL.iter().zip(used.peak) {
                row.set_item(format!("{}_peak", space.name()), bytes)?;
            }
            let other = self.others.lock().get(&name).copied().unwrap_or_default();
            row.set_item("torch_peak", other.torch)?;
            row.set_item("resident_growth", other.resident)?;
            scopes.set_item(name, row)?;
        }
        Ok(scopes)
    }

    /// Returns the bytes currently held in host memory.
    #[getter]
    fn host_bytes(&self) -> u64 {
        self.tracker.budget().usage(Space::Host).now
    }

    /// Returns the limit on host memory in bytes, or None.
    #[getter]
    fn limit(&self) -> Option<u64> {
        self.limit
    }

    fn __str__(&self) -> String {
        self.summary()
    }
}

/// A memory scope as a context manager.
#[pyclass(module = "melisma", frozen)]
pub struct Track {
    tracker: memory::MemoryTracker,
    others: Others,
    name: String,
    open: Mutex<Option<Open>>,
}

/// A scope, and what watches the memory of others meanwhile.
struct Open {
    scope: memory::Scope,
    /// Its thread stays in the process that made it.
    resident: Local<Resident>,
    torch: Py<PyAny>,
}

#[pymethods]
impl Track {
    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let track = this.get();
        let mut open = track.open.lock();
        if open.is_some() {
            return Err(raise(Error::invalid(format!("the scope `{}` is open already", track.name))));
        }
        let torch = this.py().import("melisma._memory")?.call_method0("TorchWatch")?.unbind();
        let resident = Local::new(Resident::watch().map_err(raise)?);
        *open = Some(Open { scope: track.tracker.scope(track.name.clone()), resident, torch });
        drop(open);
        Ok(this)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        let Some(Open { scope, resident, torch }) = self.open.lock().take() else {
            return Err(raise(Error::invalid(format!("the scope `{}` is not open", self.name))));
        };
        drop(scope);
        let resident = py.detach(|| resident.take().map_or(0, Resident::growth));
        let torch: u64 = torch.call_method0(py, "peak")?.extract(py)?;
        let mut others = self.others.lock();
        let other = others.entry(self.name.clone()).or_default();
        *other = Other { torch: other.torch.max(torch), resident: other.resident.max(resident) };
        Ok(())
    }
}
