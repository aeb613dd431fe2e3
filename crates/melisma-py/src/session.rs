//! `Session`: an ONNX model that stays open.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use melisma::Error;
use melisma::engine::{Engine, Port, Ports};
use melisma::format::Value;
use melisma::lock::Mutex;
use melisma::onnx::Model;
use melisma::optimize::search::{Chosen, Latency};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use serde_json::json;

use crate::array;
use crate::error::raise;
use crate::local::Shared;
use crate::onnx::{self, RequirementArgs, Setup};
use crate::optimizer::{PyTensorOptimizer, log};
use crate::signal::{self, Stop};

/// Runs shorter than this are not watched for Ctrl-C: that takes a thread.
const SHORT: Duration = Duration::from_millis(200);
/// Engines that stay open, one for each set of input shapes.
const MAX_OPEN: usize = 8;

/// A model with the best cached engine for each set of input shapes.
#[pyclass(name = "Session", module = "melisma.optimize", frozen, subclass)]
pub struct PySession {
    optimizer: Py<PyTensorOptimizer>,
    path: PathBuf,
    requirements: RequirementArgs,
    ports: Ports,
    open: Shared<Mutex<Vec<Open>>>,
}

struct Open {
    shapes: Vec<(String, Vec<usize>)>,
    chosen: Chosen,
    /// The time of the first run.
    first: Duration,
    /// The time of the last run.
    took: Duration,
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (path, optimizer, *, precision=None, tolerance=None, engine=None, objective=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        optimizer: Py<PyTensorOptimizer>,
        precision: Option<String>,
        tolerance: Option<f64>,
        engine: Option<String>,
        objective: Option<String>,
    ) -> PyResult<Self> {
        let of = path.clone();
        let read = move |_: &_| Ports::of(&Model::open(&of)?).map_err(|error| error.at(of.display()));
        let ports = signal::alone(py, read)?;
        let requirements = RequirementArgs { precision, tolerance, engine, objective };
        Ok(Self { optimizer, path, requirements, ports, open: Shared::new(Mutex::new(Vec::new())) })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.optimizer)
    }

    /// Returns the inputs: name, type and shape.
    #[pyo3(name = "_inputs")]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        port_tuples(py, &self.ports.inputs)
    }

    /// Returns the outputs: name, type and shape.
    #[pyo3(name = "_outputs")]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        port_tuples(py, &self.ports.outputs)
    }

    /// Returns the outputs by name.
    #[pyo3(name = "_run")]
    fn run<'py>(&self, py: Python<'py>, feeds: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let mut inputs = onnx::values(feeds)?;
        let open = self.open.get()?;
        let (ran, notes) = match py.detach(|| run_short(open, &mut inputs)) {
            Some(ran) => (ran, Vec::new()),
            None => {
                let setup = self.optimizer.get().setup(py)?;
                let (open, path, requirements) = (self.open.clone(), self.path.clone(), self.requirements.clone());
                signal::alone(py, move |stop| {
                    let open = open.get().map_err(|_| Error::unsupported("the session belongs to another process"))?;
                    Ok(run(open, setup.stopped_by(stop), inputs, (&path, &requirements)))
                })?
            }
        };
        log(py, notes)?;
        onnx::arrays(py, &ran.map_err(|error| raise(error.at(self.path.display())))?)
    }

    /// Returns the engine and its times over `repeat` runs.
    #[pyo3(name = "_time")]
    fn time<'py>(&self, py: Python<'py>, feeds: &Bound<'py, PyDict>, repeat: usize) -> PyResult<Bound<'py, PyAny>> {
        onnx::check_repeat(repeat, 1).map_err(raise)?;
        let (inputs, setup) = (onnx::values(feeds)?, self.optimizer.get().setup(py)?);
        let (open, path, requirements) = (self.open.clone(), self.path.clone(), self.requirements.clone());
        let (timed, notes) = signal::alone(py, move |stop| {
            let open = open.get().map_err(|_| Error::unsupported("the session belongs to another process"))?;
            Ok(time(open, (setup.stopped_by(stop), stop), (inputs, repeat), (&path, &requirements)))
        })?;
        log(py, notes)?;
        array::parsed(py, &timed.map_err(|error| raise(error.at(self.path.display())))?)
    }
}

type Inputs = Vec<(String, Value)>;

/// Runs with inputs that stay the same, and returns the times as text: JSON.
fn time(
    open: &Mutex<Vec<Open>>,
    (setup, stop): (Setup, &Stop),
    (inputs, repeat): (Inputs, usize),
    (path, requirements): (&Path, &RequirementArgs),
) -> (melisma::Result<String>, onnx::Notes) {
    let (ran, notes) = run(open, setup, inputs.clone(), (path, requirements));
    let timed = ran.and_then(|_| {
        let mut open = open.lock();
        let known = open.iter_mut().find(|known| known.is_for(&inputs));
        let known = known.ok_or_else(|| Error::invalid("the session was closed meanwhile"))?;
        let engine = &mut *known.chosen.engine;
        let values = engine.ports().arrange(inputs).map_err(|error| error.at("inputs"))?;
        let seconds = engine.repeat(&values, repeat, &|| stop.check())?;
        let mut report = known.chosen.keys();
        report["times"] =
            json!({ "first_seconds": known.first.as_secs_f64(), "latency_seconds": Latency::of(&seconds) });
        Ok(report.to_string())
    });
    (timed, notes)
}
type RunOutput = melisma::Result<Vec<(String, Value)>>;

impl Open {
    fn is_for(&self, inputs: &Inputs) -> bool {
        let shapes = self.shapes.iter().map(|(name, shape)| (name.as_str(), shape.as_slice()));
        shapes.eq(inputs.iter().map(|(name, value)| (name.as_str(), value.shape())))
    }

    fn run(&mut self, inputs: Inputs) -> RunOutput {
        let engine = &mut *self.chosen.engine;
        let values = engine.ports().arrange(inputs).map_err(|error| error.at("inputs"))?;
        let begin = Instant::now();
        let ran = outputs(engine, &values);
        self.took = begin.elapsed();
        ran
    }
}

/// Runs on this thread if that is known to take less than [`SHORT`].
fn run_short(open: &Mutex<Vec<Open>>, inputs: &mut Inputs) -> Option<RunOutput> {
    let mut open = open.try_lock()?;
    let known = open.iter_mut().find(|known| known.is_for(inputs) && known.took < SHORT)?;
    Some(known.run(std::mem::take(inputs)))
}

fn run(
    open: &Mutex<Vec<Open>>,
    setup: Setup,
    inputs: Inputs,
    (path, requirements): (&Path, &RequirementArgs),
) -> (RunOutput, onnx::Notes) {
    let mut open = open.lock();
    if let Some(known) = open.iter_mut().find(|known| known.is_for(&inputs)) {
        return (known.run(inputs), Vec::new());
    }
    let shapes = inputs.iter().map(|(name, value)| (name.clone(), value.shape().to_vec())).collect();
    let (chosen, notes) = onnx::open(setup, path, inputs, requirements);
    let ran = chosen.and_then(|(mut chosen, values)| {
        let begin = Instant::now();
        let ran = outputs(&mut *chosen.engine, &values)?;
        if open.len() == MAX_OPEN {
            open.remove(0);
        }
        let took = begin.elapsed();
        open.push(Open { shapes, chosen, first: took, took });
        Ok(ran)
    });
    (ran, notes)
}

fn outputs(engine: &mut dyn Engine, values: &[Value]) -> melisma::Result<Vec<(String, Value)>> {
    let results = engine.run(values)?;
    Ok(engine.outputs().iter().map(|port| port.name.clone()).zip(results).collect())
}

fn port_tuples<'py>(py: Python<'py>, ports: &[Port]) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let axis = |dim: &melisma::onnx::Dim| match dim {
        melisma::onnx::Dim::Known(extent) => extent.into_pyobject(py).map(|extent| extent.into_any()).ok(),
        melisma::onnx::Dim::Named(name) => name.into_pyobject(py).map(|name| name.into_any()).ok(),
        melisma::onnx::Dim::Open => None,
    };
    let shape = |port: &Port| port.shape.as_ref().map(|dims| dims.iter().map(axis).collect::<Vec<_>>());
    ports.iter().map(|port| (&port.name, port.dtype.name(), shape(port)).into_pyobject(py)).collect()
}
