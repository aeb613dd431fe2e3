//! Weights in the memory of a GPU.

use std::path::PathBuf;

use melisma::pack::{self, Loaded};
use melisma::{Error, View};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::open::open;
use super::source::Stoppable;
use crate::error::raise;
use crate::exec_context::{ExecContext, ExecOptions};
use crate::local::Shared;
use crate::signal::{self, Stop};

/// A tensor in device memory, for consumers of `__cuda_array_interface__`.
#[pyclass(name = "DeviceTensor", module = "melisma._melisma", frozen)]
pub struct PyDeviceTensor {
    model: Shared<Model>,
    name: String,
    #[pyo3(get)]
    dtype: String,
    #[pyo3(get)]
    shape: Vec<u64>,
    address: u64,
    len: u64,
}

/// The memory, and the device that it belongs to.
struct Model {
    _loaded: Loaded,
    _exec: ExecContext,
}

#[pymethods]
impl PyDeviceTensor {
    /// Describes the tensor's bytes: protocol version 3, on the default stream, which has nothing to wait for.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.model.get()?;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (self.len,))?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("strides", py.None())?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("DeviceTensor({:?}, {}, {:?})", self.name, self.dtype, self.shape)
    }
}

/// Loads a file, packed or plain, into the memory of a GPU.
#[pyfunction(name = "_load_to_device")]
pub fn load_to_device(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Vec<(String, PyDeviceTensor)>> {
    let exec = ExecContext::open(py, ExecOptions { device: Some(device), ..ExecOptions::default() })?;
    let load = |stop: &Stop| {
        let source = Stoppable { source: &open(&path)?, stop };
        pack::load_to_device(&source, exec.context.device(), exec.context.budget())
            .map_err(|error| error.at(path.display()))
    };
    let loaded = signal::watched(py, load, || Ok(()))?;
    let mut tensors = Vec::new();
    for entry in loaded.tensors().to_vec() {
        let address = match loaded.view::<u8>(&entry.name).map_err(raise)? {
            // The protocol's address of nothing.
            View::Cuda(_) if entry.is_empty() => 0,
            View::Cuda(view) => view.address(),
            View::Host(_) => return Err(raise(Error::invalid(format!("{device} has no memory of its own")))),
        };
        tensors.push((entry, address));
    }
    let model = Shared::new(Model { _loaded: loaded, _exec: exec });
    let tensor = |(entry, address): (pack::TensorEntry, u64)| {
        let (name, len) = (entry.name.clone(), entry.len());
        (
            entry.name,
            PyDeviceTensor { model: model.clone(), name, dtype: entry.dtype, shape: entry.shape, address, len },
        )
    };
    Ok(tensors.into_iter().map(tensor).collect())
}
