//! ONNX models: finds, caches and runs the best engine for this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use melisma::config::Config;
use melisma::engine::Ports;
use melisma::format::Value;
use melisma::optimize::search::{
    self, Chosen, Content, Given, Message, Program, Request, Requested, Requirements, Search, Worker,
};
use melisma::runtime::memory::Budget;
use melisma::{DType, Error, Result};
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::array;
use crate::error::raise;
use crate::signal::Stop;

/// The requirements on an engine, as given in Python.
#[derive(Clone, Default)]
pub struct RequirementArgs {
    pub precision: Option<String>,
    pub tolerance: Option<f64>,
    pub engine: Option<String>,
}

impl Setup {
    /// Ends its processes once `stop` is set.
    #[must_use]
    pub fn stopped_by(self, stop: &Stop) -> Self {
        Self { program: self.program.stopped_by(stop.0.clone()), ..self }
    }
}

impl RequirementArgs {
    fn to_requested(&self) -> Requested<'_> {
        let (precision, engine) = (self.precision.as_deref(), self.engine.as_deref());
        Requested::default().with_precision(precision).with_tolerance(self.tolerance).with_engine(engine)
    }
}

/// Notes for Python's log.
pub type Notes = Vec<Message>;

/// A model and the shapes of its inputs.
pub struct Task {
    pub model: PathBuf,
    pub inputs: Vec<(String, Vec<usize>)>,
    pub calibrate: Option<PathBuf>,
}

/// What a search works with.
pub struct Setup {
    pub config: Config,
    pub budget: Budget,
    pub program: Program,
}

/// Returns the report of `melisma optimize --json`, as text.
pub fn optimize(setup: Setup, task: Task, requirements: &RequirementArgs) -> (Result<String>, Notes) {
    with_notes(setup, |search| {
        let given = |(name, shape)| Given::new(name, Content::Shape(shape));
        let inputs = task.inputs.into_iter().map(given).collect();
        let requirements = Requirements::new(search.config, requirements.to_requested())?;
        let request = Request::new(task.model, requirements).with_inputs(inputs).with_calibrate(task.calibrate);
        search.optimize(&request).map(|outcome| outcome.keys().to_string())
    })
}

/// Outputs by name, and the engine's part of `melisma run --json`, as text.
pub struct RunOutput {
    pub outputs: Vec<(String, Value)>,
    pub report: String,
}

/// Chooses an engine for inputs of these shapes, and puts the inputs in its order.
pub fn open(
    setup: Setup,
    path: &Path,
    inputs: Vec<(String, Value)>,
    requirements: &RequirementArgs,
) -> (Result<(Chosen, Vec<Value>)>, Notes) {
    with_notes(setup, |search| {
        let values = |ports: &Ports| ports.arrange(inputs).map_err(|error| error.at("inputs"));
        search.open_for_run(path, requirements.to_requested(), values)
    })
}

/// Runs a model once.
pub fn run(
    setup: Setup,
    path: &Path,
    inputs: Vec<(String, Value)>,
    requirements: &RequirementArgs,
) -> (Result<RunOutput>, Notes) {
    let (opened, notes) = open(setup, path, inputs, requirements);
    let ran = opened.and_then(|(mut chosen, values)| {
        let results = chosen.engine.run(&values).map_err(|error| error.at(path.display()))?;
        let names = chosen.engine.outputs().iter().map(|port| port.name.clone());
        Ok(RunOutput { outputs: names.zip(results).collect(), report: chosen.keys().to_string() })
    });
    (ran, notes)
}

/// Calls `work` with a search and collects its messages.
fn with_notes<R>(setup: Setup, work: impl FnOnce(&Search<'_>) -> Result<R>) -> (Result<R>, Notes) {
    let notes = std::cell::RefCell::new(Notes::new());
    let say = |message: &Message| notes.borrow_mut().push(message.clone());
    let Setup { config, budget, program } = setup;
    let result = work(&Search::new(&config, &budget, Worker::Program(program), &say));
    (result, notes.into_inner())
}

/// numpy's names for the supported types.
const NAMES: [(DType, &str); 12] = [
    (DType::F32, "float32"),
    (DType::F64, "float64"),
    (DType::F16, "float16"),
    (DType::I8, "int8"),
    (DType::I16, "int16"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
    (DType::U8, "uint8"),
    (DType::U16, "uint16"),
    (DType::U32, "uint32"),
    (DType::U64, "uint64"),
    (DType::Bool, "bool"),
];

/// Reads arrays by name.
pub fn values(arrays: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Value)>> {
    let value = |(name, array): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let array = array::native(&array)?;
        let (name, untyped): (String, _) = (name.extract()?, array::untyped(&array)?);
        let of = array::name(untyped)?;
        let dtype = NAMES.iter().find(|(_, known)| *known == of).ok_or_else(|| raise(array::unknown(&of).at(&name)))?.0;
        let bytes = array.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        let value =
            Value::from_bytes(dtype, untyped.shape(), bytes.as_bytes()).map_err(|error| raise(error.at(&name)))?;
        Ok((name, value))
    };
    arrays.iter().map(value).collect()
}

/// Returns arrays by name.
pub fn arrays<'py>(py: Python<'py>, values: &[(String, Value)]) -> PyResult<Bound<'py, PyDict>> {
    let arrays = PyDict::new(py);
    for (name, value) in values {
        let of = NAMES.iter().find(|(dtype, _)| *dtype == value.dtype()).ok_or_else(|| {
            raise(Error::unsupported(format!("{name}: numpy has no arrays of {}", value.dtype().name())))
        })?;
        let bytes = PyArray1::from_slice(py, value.bytes());
        let array = bytes.call_method1("view", (of.1,))?.call_method1("reshape", (value.shape().to_vec(),))?;
        arrays.set_item(name, array)?;
    }
    Ok(arrays)
}

/// Measures candidates in processes of this interpreter.
pub fn program(py: Python<'_>) -> PyResult<Program> {
    let python: OsString = py.import("sys")?.getattr("executable")?.extract()?;
    let script: OsString = py.import("melisma._worker")?.getattr("__file__")?.extract()?;
    Ok(Program::new(vec![python, script]))
}

/// Measures one candidate for the search that started this process, and returns the exit code.
#[pyfunction(name = "_work")]
pub fn work(py: Python<'_>, spec: PathBuf) -> i32 {
    i32::from(py.detach(|| search::serve(&spec)).is_err())
}
