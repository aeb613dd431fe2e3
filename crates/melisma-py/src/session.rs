//! `Session`: an ONNX model that stays open.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use melisma::engine::{Engine, Port, Ports};
use melisma::format::Value;
use melisma::onnx::Model;
use melisma::optimize::search::Chosen;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::raise;
use crate::local::Local;
use crate::onnx::{self, Asks};
use crate::optimizer::{PyTensorOptimizer, log};

/// Engines that stay open, one for each set of input shapes.
const MAX_OPEN: usize = 8;

/// A model with the best cached engine for each set of input shapes.
#[pyclass(name = "Session", module = "melisma.optimize", frozen, subclass)]
pub struct PySession {
    optimizer: Py<PyTensorOptimizer>,
    path: PathBuf,
    asks: Asks,
    ports: Ports,
    open: Local<Mutex<Vec<Open>>>,
}

struct Open {
    shapes: Vec<(String, Vec<usize>)>,
    chosen: Chosen,
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (path, optimizer, *, precision=None, tolerance=None, engine=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        optimizer: Py<PyTensorOptimizer>,
        precision: Option<String>,
        tolerance: Option<f64>,
        engine: Option<String>,
    ) -> PyResult<Self> {
        let read = || Ports::of(&Model::open(&path)?).map_err(|error| error.at(path.display()));
        let ports = py.detach(read).map_err(raise)?;
        let asks = Asks { precision, tolerance, engine };
        Ok(Self { optimizer, path, asks, ports, open: Local::new(Mutex::new(Vec::new())) })
    }

    /// Inputs: name, type and shape.
    #[pyo3(name = "_inputs")]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        shown(py, &self.ports.inputs)
    }

    /// Outputs: name, type and shape.
    #[pyo3(name = "_outputs")]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        shown(py, &self.ports.outputs)
    }

    /// The outputs by name.
    #[pyo3(name = "_run")]
    fn run<'py>(&self, py: Python<'py>, feeds: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let inputs = onnx::values(feeds)?;
        let shapes: Vec<_> = inputs.iter().map(|(name, value)| (name.clone(), value.shape().to_vec())).collect();
        let (worker, open) = (onnx::worker(py)?, self.open.get()?);
        let setup = self.optimizer.get().setup(worker)?;
        let (ran, notes) = py.detach(|| {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = open.iter_mut().find(|known| known.shapes == shapes) {
                let values = known.chosen.engine.ports().arrange(inputs).map_err(|error| error.at("inputs"));
                return (values.and_then(|values| outputs(&mut *known.chosen.engine, &values)), Vec::new());
            }
            let (chosen, notes) = onnx::open(setup, &self.path, inputs, &self.asks);
            let ran = chosen.and_then(|(mut chosen, values)| {
                let ran = outputs(&mut *chosen.engine, &values)?;
                if open.len() == MAX_OPEN {
                    open.remove(0);
                }
                open.push(Open { shapes, chosen });
                Ok(ran)
            });
            (ran, notes)
        });
        log(py, notes)?;
        onnx::arrays(py, &ran.map_err(|error| raise(error.at(self.path.display())))?)
    }
}

fn outputs(engine: &mut dyn Engine, values: &[Value]) -> melisma::Result<Vec<(String, Value)>> {
    let results = engine.run(values)?;
    Ok(engine.outputs().iter().map(|port| port.name.clone()).zip(results).collect())
}

fn shown<'py>(py: Python<'py>, ports: &[Port]) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let axis = |dim: &melisma::onnx::Dim| match dim {
        melisma::onnx::Dim::Known(extent) => extent.into_pyobject(py).map(|extent| extent.into_any()).ok(),
        melisma::onnx::Dim::Named(name) => name.into_pyobject(py).map(|name| name.into_any()).ok(),
        melisma::onnx::Dim::Open => None,
    };
    let shape = |port: &Port| port.shape.as_ref().map(|dims| dims.iter().map(axis).collect::<Vec<_>>());
    ports.iter().map(|port| (&port.name, port.dtype.name(), shape(port)).into_pyobject(py)).collect()
}
