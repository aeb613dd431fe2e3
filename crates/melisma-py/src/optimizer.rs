//! `TensorOptimizer` and its precision scope.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use melisma::config::Config;
use melisma::lock::Mutex;
use melisma::optimize::search::Message;
use melisma::tensor::TensorOptimizer;
use melisma::{Result, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::array;
use crate::config::PyConfig;
use crate::error::raise;
use crate::local::Local;
use crate::memory::{MemoryTracker, Others};
use crate::tensor::{Operand, PyTensor};
use crate::{element, onnx, settings, signal};

/// Multiplications of a product that takes a tenth of a second or more.
const LONG: usize = 1 << 32;

/// The tensor tools under one set of settings: device, profile, memory limit and the section `tensor_optimizations`.
///
/// Args:
///     profile: The name of a profile.
///     config: The path of a YAML file, or settings as a dict or a `Config`.
///     memory_limit: Bytes, or text such as "2GiB".
#[pyclass(name = "TensorOptimizer", module = "melisma", frozen, subclass)]
pub struct PyTensorOptimizer {
    tools: Local<TensorOptimizer>,
    config: Config,
    others: Others,
    last_run: Mutex<Option<String>>,
}

#[pymethods]
impl PyTensorOptimizer {
    /// Reads `config`, the path of a YAML file or a dict of settings; `MELISMA_*` environment
    /// variables apply as usual.
    #[new]
    #[pyo3(signature = (profile=None, config=None, memory_limit=None))]
    fn new(
        py: Python<'_>,
        profile: Option<&str>,
        config: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let ready = config.and_then(|config| config.cast::<PyConfig>().ok());
        let ready = ready.map(|config| config.get().config.clone());
        let sources = settings::sources(profile, config.filter(|_| ready.is_none()), memory_limit)?;
        let opened = || {
            let config = ready.map_or_else(|| Config::load(&sources), Ok)?;
            let tools = Local::new(TensorOptimizer::new(&config)?);
            Ok(Self { tools, config, others: Others::default(), last_run: Mutex::new(None) })
        };
        py.detach(opened).map_err(raise)
    }

    /// Returns the memory in use and its limit.
    #[getter]
    fn memory(&self) -> PyResult<MemoryTracker> {
        Ok(MemoryTracker::of(self.tools()?.memory().clone(), self.others.clone()))
    }

    /// Returns a tensor on the device with the values of `array`, converted to `dtype` or to the
    /// type in the settings.
    #[pyo3(signature = (array, dtype=None))]
    fn optimize_tensor(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTensor> {
        let dtype = array::dtype(dtype)?;
        let tensor = self.owned(array)?;
        let tools = self.tools()?;
        self.wrap(py.detach(|| tools.optimize_tensor(tensor, dtype)))
    }

    /// Multiplies two matrices.
    ///
    /// Args:
    ///     a: [M, K], an array or a tensor.
    ///     b: [K, N], an array or a tensor.
    ///
    /// Returns:
    ///     [M, N], in the type of `a`.
    fn matmul(&self, py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        self.product(py, [a, b], |tools, a, b| tools.matmul(a, b))
    }

    /// Combines two operands, element by element.
    ///
    /// Args:
    ///     operation: add, subtract, multiply, divide, maximum or minimum.
    ///     y: The first operand, an array or a tensor.
    ///     x: The second operand: a number, or as many elements as `y`.
    ///
    /// Returns:
    ///     A new tensor.
    fn combine(&self, operation: &str, y: &Bound<'_, PyAny>, x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let (operation, mut y) = (element::operation(operation)?, self.owned(y)?);
        element::combine(self.tools()?, operation, &mut y, x)?;
        self.wrap(Ok(y))
    }

    /// Changes `y` where it is.
    ///
    /// Args:
    ///     operation: As for `combine`.
    ///     y: The array or tensor to change.
    ///     x: As for `combine`.
    fn combine_in_place(&self, operation: &str, y: &Bound<'_, PyAny>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        element::combine_in_place(self.tools()?, element::operation(operation)?, y, x)
    }

    /// Opens a scope in which products keep their operands in the precision of the settings.
    ///
    /// Returns:
    ///     The scope, for `with`.
    fn mixed_precision(this: Bound<'_, Self>) -> PrecisionScope {
        PrecisionScope { optimizer: this.unbind(), is_open: AtomicBool::new(false) }
    }

    /// Calls a function on optimized inputs, in a precision scope that is tracked.
    ///
    /// Args:
    ///     name: The name of the scope in the memory table.
    ///     inputs: Arrays and tensors, which are optimized first.
    ///     work: Called as `work(scope, *inputs)`.
    ///
    /// Returns:
    ///     What `work` returns.
    fn apply<'py>(
        this: Bound<'py, Self>,
        name: String,
        inputs: &Bound<'py, PyAny>,
        work: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let _tracked = this.get().tools()?.memory().scope(name);
        let scope = Bound::new(py, Self::mixed_precision(this.clone()))?;
        let mut arguments = vec![scope.clone().into_any()];
        for input in inputs.try_iter()? {
            arguments.push(Bound::new(py, this.get().optimize_tensor(py, &input?, None)?)?.into_any());
        }
        scope.get().is_open.store(true, Ordering::Relaxed);
        let result = work.call1(PyTuple::new(py, arguments)?);
        scope.get().is_open.store(false, Ordering::Relaxed);
        result
    }

    /// Finds the best engine for an ONNX model with inputs of these shapes or values, and caches it for `run`.
    ///
    /// Args:
    ///     path: The model.
    ///     inputs: The shape of each input by name, or an array with its values; those whose shape the model fixes may be
    ///         left out.
    ///     precision: "fp32", "fp16", "int8" or "auto"; None is that of the settings.
    ///     tolerance: The largest relative error that is allowed; None is that of the settings.
    ///     engine: The only engine to consider; None considers all.
    ///     objective: What the best engine is best at: "p50", "p99", "memory" or "first"; None is what the profile prefers.
    ///     calibrate: A folder with NAME.npy for each input, or with folders of them, to measure accuracy with.
    ///     remeasure: Whether a cached engine is measured again and replaced.
    ///
    /// Returns:
    ///     The report of `melisma optimize --json`.
    #[pyo3(signature = (
        path, inputs, *, precision=None, tolerance=None, engine=None, objective=None, calibrate=None, remeasure=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn optimize<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        inputs: BTreeMap<String, Bound<'py, PyAny>>,
        precision: Option<String>,
        tolerance: Option<f64>,
        engine: Option<String>,
        objective: Option<String>,
        calibrate: Option<PathBuf>,
        remeasure: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let requirements = onnx::RequirementArgs { precision, tolerance, engine, objective };
        let setup = self.setup(py)?;
        let inputs = inputs.into_iter().map(|(name, input)| onnx::given(name, &input)).collect::<PyResult<_>>()?;
        let task = onnx::Task { model: path, inputs, calibrate, remeasure };
        let (report, notes) =
            signal::alone(py, move |stop| Ok(onnx::optimize(setup.stopped_by(stop), task, &requirements)))?;
        log(py, notes)?;
        array::parsed(py, &report.map_err(raise)?)
    }

    /// Runs an ONNX model on the fastest cached engine for these shapes that satisfies the arguments, else on the embedded
    /// one in FP32. The logger `melisma` is told which and why, and `last_run` holds it.
    ///
    /// Args:
    ///     path: The model.
    ///     inputs: The inputs by name.
    ///     precision: As for `optimize`.
    ///     tolerance: As for `optimize`.
    ///     engine: As for `optimize`.
    ///     objective: As for `optimize`.
    ///     repeat: How many times more the model runs after its first run, to fill `times` of `last_run`.
    ///
    /// Returns:
    ///     The outputs by name.
    #[pyo3(signature = (path, inputs, *, precision=None, tolerance=None, engine=None, objective=None, repeat=0))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        inputs: &Bound<'py, PyDict>,
        precision: Option<String>,
        tolerance: Option<f64>,
        engine: Option<String>,
        objective: Option<String>,
        repeat: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        onnx::check_repeat(repeat, 0).map_err(raise)?;
        let requirements = onnx::RequirementArgs { precision, tolerance, engine, objective };
        let (inputs, setup) = (onnx::values(inputs)?, self.setup(py)?);
        let work =
            move |stop: &signal::Stop| Ok(onnx::run(setup.stopped_by(stop), &path, inputs, (&requirements, repeat)));
        let (ran, notes) = signal::alone(py, work)?;
        log(py, notes)?;
        let onnx::RunOutput { outputs, report } = ran.map_err(raise)?;
        *self.last_run.lock() = Some(report);
        onnx::arrays(py, &outputs)
    }

    /// Returns the engine's part of `melisma run --json` for the last `run`; None before the first.
    #[getter]
    fn last_run<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let report = self.last_run.lock().clone();
        report.map(|report| array::parsed(py, &report)).transpose()
    }
}

/// Sends the notes that the command line prints on stderr to the logger `melisma`.
pub fn log(py: Python<'_>, notes: onnx::Notes) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("melisma",))?;
    for note in notes {
        let level = match note {
            Message::Note(_) => "warning",
            _ => "info",
        };
        logger.call_method1(level, ("%s", note.to_string()))?;
    }
    Ok(())
}

/// Products in the precision from the settings, with sums in FP32.
#[pyclass(module = "melisma", frozen)]
pub struct PrecisionScope {
    optimizer: Py<PyTensorOptimizer>,
    is_open: AtomicBool,
}

#[pymethods]
impl PrecisionScope {
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.optimizer)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this.get().is_open.store(true, Ordering::Relaxed);
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.is_open.store(false, Ordering::Relaxed);
    }

    /// Returns the format of operands.
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.optimizer.get().tools()?.mixed_precision(|scope| scope.dtype().name()))
    }

    /// Multiplies two matrices.
    ///
    /// Args:
    ///     a: [M, K], an array or a tensor.
    ///     b: [K, N], an array or a tensor.
    ///
    /// Returns:
    ///     [M, N], in the format of this scope.
    fn matmul(&self, py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        if !self.is_open.load(Ordering::Relaxed) {
            let error = melisma::Error::invalid("the precision scope is not open");
            return Err(raise(error.with_hint("use it inside of `with optimizer.mixed_precision() as scope:`")));
        }
        let work = |tools: &TensorOptimizer, a: &Tensor, b: &Tensor| tools.mixed_precision(|scope| scope.matmul(a, b));
        self.optimizer.get().product(py, [a, b], work)
    }
}

impl PyTensorOptimizer {
    /// Returns what the optimizer works with.
    ///
    /// # Errors
    /// The optimizer was made before a fork.
    pub fn tools(&self) -> PyResult<&TensorOptimizer> {
        self.tools.get()
    }

    pub fn setup(&self, py: Python<'_>) -> PyResult<onnx::Setup> {
        let (config, budget) = (self.config.clone(), self.tools()?.memory().budget().clone());
        Ok(onnx::Setup { config, budget, program: onnx::program(py)? })
    }

    /// Multiplies two operands. Ctrl-C ends a long one early.
    fn product(
        &self,
        py: Python<'_>,
        [a, b]: [&Bound<'_, PyAny>; 2],
        work: impl FnOnce(&TensorOptimizer, &Tensor, &Tensor) -> Result<Tensor> + Send,
    ) -> PyResult<PyTensor> {
        let (a, b) = (self.operand(a)?, self.operand(b)?);
        let (a, b) = (a.tensor(), b.tensor());
        let tools = self.tools()?;
        let extents = a.shape().iter().chain(b.shape().last());
        if extents.fold(1usize, |product, &extent| product.saturating_mul(extent)) < LONG {
            return self.wrap(py.detach(|| work(tools, a, b)));
        }
        let product = signal::watched(py, |stop| work(&tools.stopped_by(&stop.0), a, b), || Ok(()))?;
        self.wrap(Ok(product))
    }

    fn operand<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Operand<'py>> {
        Operand::take(value, self.tools()?.memory().budget())
    }

    fn owned(&self, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let tools = self.tools()?;
        self.operand(value)?.owned(value.py(), tools.queue(), tools.memory().budget())
    }

    fn wrap(&self, tensor: Result<Tensor>) -> PyResult<PyTensor> {
        Ok(PyTensor { tensor: tensor.map_err(raise)?, queue: self.tools()?.queue().clone() })
    }
}
