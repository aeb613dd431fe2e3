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
    pub objective: Option<String>,
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
        let requested = Requested::default().with_precision(precision).with_tolerance(self.tolerance);
        requested.with_engine(engine).with_objective(self.objective.as_deref())
    }
}

/// Notes for Python's log.
pub type Notes = Vec<Message>;

/// A model, and the shapes or values of its inputs.
pub struct Task {
    pub model: PathBuf,
    pub inputs: Vec<Given>,
    pub calibrate: Option<PathBuf>,
    pub remeasure: bool,
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
        let requirements = Requirements::new(search.config, requirements.to_requested())?;
        let request = Request::new(task.model, requirements).with_inputs(task.inputs).with_calibrate(task.calibrate);
        search.optimize(&request.with_remeasure(task.remeasure)).map(|outcome| outcome.keys().to_string())
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

/// The most runs that are timed.
const MAX_REPEAT: usize = 1_000_000;

/// Checks that so many runs are as many as `least`, and few enough to end.
pub fn check_repeat(repeat: usize, least: usize) -> Result<()> {
    if (least..=MAX_REPEAT).contains(&repeat) {
        return Ok(());
    }
    Err(Error::invalid(format!("repeat: {repeat} is not from {least} to {MAX_REPEAT}"))
        .with_hint("a hundred runs show the times of a model well"))
}

/// Runs a model once, then `repeat` times more.
pub fn run(
    setup: Setup,
    path: &Path,
    inputs: Vec<(String, Value)>,
    (requirements, repeat): (&RequirementArgs, usize),
) -> (Result<RunOutput>, Notes) {
    let (opened, notes) = open(setup, path, inputs, requirements);
    let ran = opened.and_then(|(mut chosen, values)| {
        let ran = chosen.run_repeated(&values, repeat).map_err(|error| error.at(path.display()))?;
        let names = chosen.engine.outputs().iter().map(|port| port.name.clone());
        let mut report = chosen.keys();
        report["times"] = ran.keys();
        Ok(RunOutput { outputs: names.zip(ran.outputs).collect(), report: report.to_string() })
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
    let named = |(name, array): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let native = array::native(&array)?;
        let name: String = name.extract()?;
        let value = value(&name, &native)?;
        Ok((name, value))
    };
    arrays.iter().map(named).collect()
}

/// Reads the shape or the values of an input: a sequence of lengths, or an array.
pub fn given(name: String, input: &Bound<'_, PyAny>) -> PyResult<Given> {
    let content = match input.extract::<Vec<usize>>() {
        Ok(shape) => Content::Shape(shape),
        Err(_) if input.hasattr("dtype")? => Content::Array(value(&name, &array::native(input)?)?),
        Err(error) => return Err(error),
    };
    Ok(Given::new(name, content))
}

fn value(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Value> {
    let untyped = array::untyped(array)?;
    let of = array::name(untyped)?;
    let dtype = NAMES.iter().find(|(_, known)| *known == of).ok_or_else(|| raise(array::unknown(&of).at(name)))?.0;
    let bytes = array.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    Value::from_bytes(dtype, untyped.shape(), bytes.as_bytes()).map_err(|error| raise(error.at(name)))
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
