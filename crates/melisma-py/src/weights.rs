//! `Weights`: loads large files tensor by tensor.

use std::path::PathBuf;

use melisma::tensor::Weights;
use pyo3::prelude::*;

use crate::error::raise;
use crate::optimizer::PyTensorOptimizer;
use crate::signal::Watch;
use crate::tensor::PyTensor;

/// A file of weights; only its header is read.
///
/// Args:
///     path: A `.safetensors` file, packed or not, or a checkpoint of PyTorch.
#[pyclass(name = "Weights", module = "melisma", frozen)]
pub struct PyWeights {
    weights: Weights,
}

#[pymethods]
impl PyWeights {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { weights: py.detach(|| Weights::open(&path)).map_err(raise)? })
    }

    /// Reads one tensor after another. The memory limit holds for those that are alive at one time.
    ///
    /// Args:
    ///     optimizer: Optimizes each tensor.
    ///     take: Called as `take(name, tensor)`.
    fn load(&self, py: Python<'_>, optimizer: &Bound<'_, PyTensorOptimizer>, take: Py<PyAny>) -> PyResult<()> {
        let optimizer = optimizer.get().tools()?;
        py.detach(|| {
            let mut watch = Watch::new();
            let loaded = self.weights.load(optimizer, |name, tensor| {
                let tensor = PyTensor { tensor, queue: optimizer.queue().clone() };
                Python::attach(|py| take.call1(py, (name, tensor))).map_err(|raised| watch.keep(raised))?;
                watch.ask()
            });
            watch.settle(loaded)
        })
    }
}
