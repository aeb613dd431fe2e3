//! Models in ONNX: the best engine for this machine, found, kept and run.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use melisma::optimize::cache::{self, Cache};
use melisma::optimize::engine::Port;
use melisma::optimize::need::{Embedded, Limits};
use melisma::optimize::onnx::Model;
use melisma::optimize::search::{self, Content, Given, Request, Search, Spec, Wanted, Worker};
use melisma::optimize::{DType, Engine, Value};
use melisma::runtime::machine::free_bytes;
use melisma::runtime::{Config, DeviceRequest, Policy};
use melisma::{Error, Kind, Result};
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::array;
use crate::error::raise;

/// The report of `melisma optimize --json`, as text, with what was said meanwhile.
pub fn optimize(config: &Config, model: PathBuf, inputs: Vec<(String, Vec<usize>)>, worker: Worker) -> Result<String> {
    let given = |(name, shape)| Given { name, content: Content::Shape(shape) };
    let request = request(config, model, inputs.into_iter().map(given).collect());
    let notes = RefCell::new(Vec::new());
    let say = |text: &str| notes.borrow_mut().push(text.to_owned());
    let cache = open_cache(config);
    let outcome = Search { config, cache: &cache, worker, free_bytes: free_bytes(), say: &say }.optimize(&request)?;
    let path = outcome.entry.unkept.is_none().then(|| outcome.entry.folder.display().to_string());
    let mut report = outcome.report.keys();
    report["cache"] =
        serde_json::json!({ "key": outcome.key, "hit": outcome.miss.is_none(), "path": path, "reason": outcome.miss });
    report["notes"] = notes.into_inner().into();
    Ok(report.to_string())
}

/// Outputs by name, of the engine that was kept for these shapes, else of the embedded one.
pub fn run(
    config: &Config,
    path: &Path,
    mut inputs: Vec<(String, Value)>,
    worker: Worker,
) -> Result<Vec<(String, Value)>> {
    let limits = Limits::of(config, free_bytes());
    let model = Model::open_within(path, limits.most_bytes().unwrap_or(u64::MAX))?;
    let ports = Port::inputs(&model)?;
    let mut values = Vec::with_capacity(ports.len());
    for port in &ports {
        let at = inputs.iter().position(|(name, _)| *name == port.name);
        let at =
            at.ok_or_else(|| Error::invalid(format!("the input `{}` is missing", port.name)).with_hint(takes(&ports)))?;
        let (name, value) = inputs.swap_remove(at);
        port.check(&value).map_err(|error| error.at(name))?;
        values.push(value);
    }
    if let Some((name, _)) = inputs.first() {
        return Err(Error::invalid(format!("no input is called `{name}`")).with_hint(takes(&ports)));
    }
    let mut engine = match kept(config, path, (&ports, &values), worker.clone())? {
        Some(engine) => {
            drop(model);
            engine
        }
        None if matches!(config.device.value, DeviceRequest::Cuda(_)) => {
            let error = Error::unsupported("a GPU is asked for, and the embedded engine works on the CPU");
            return Err(
                error.with_hint("use the device cpu or auto, or `optimize` first with ONNX Runtime's build for GPUs")
            );
        }
        None => {
            let embedded = Embedded { path, limits, threads: config.threads.value.count(), worker };
            embedded.open(model, &values).map_err(|error| error.at(path.display()))?
        }
    };
    let results = engine.run(&values).map_err(|error| error.at(path.display()))?;
    Ok(engine.outputs().iter().map(|port| port.name.clone()).zip(results).collect())
}

/// The engine that `optimize` kept for inputs of these shapes.
fn kept(
    config: &Config,
    path: &Path,
    (ports, values): (&[Port], &[Value]),
    worker: Worker,
) -> Result<Option<Box<dyn Engine>>> {
    let cache = open_cache(config);
    let search = Search { config, cache: &cache, worker, free_bytes: free_bytes(), say: &|_| {} };
    let given = |(port, value): (&Port, &Value)| Given {
        name: port.name.clone(),
        content: Content::Shape(value.shape().to_vec()),
    };
    let all = || ports.iter().zip(values);
    let mut sets = vec![all().filter(|(port, _)| !port.is_fixed()).map(given).collect(), all().map(given).collect()];
    sets.dedup();
    for inputs in sets {
        if let Some((engine, _)) = search.find(&request(config, path.to_owned(), inputs))? {
            return Ok(Some(engine));
        }
    }
    Ok(None)
}

fn request(config: &Config, model: PathBuf, inputs: Vec<Given>) -> Request {
    let precision = Wanted::of(&Policy::new(config));
    Request { model, inputs, precision, tolerance: config.tolerance.value.value(), engine: None, calibrate: None }
}

fn open_cache(config: &Config) -> Cache {
    let options = cache::Options { limit_bytes: config.cache_limit.value.0, threads: config.threads.value.count() };
    Cache::open(config.cache_dir.value.as_deref(), options)
}

fn takes(ports: &[Port]) -> String {
    let ports: Vec<String> = ports.iter().map(|port| format!("{}: {}", port.name, port.describe())).collect();
    format!("the model takes {}", if ports.is_empty() { "no inputs".to_owned() } else { ports.join(", ") })
}

/// numpy's name of each type that both have.
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

/// Arrays by name.
pub fn values(arrays: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Value)>> {
    let value = |(name, array): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
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

/// Arrays by name.
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

/// Candidates are measured in processes of this interpreter.
pub fn worker(py: Python<'_>) -> PyResult<Worker> {
    let python: OsString = py.import("sys")?.getattr("executable")?.extract()?;
    let script: OsString = py.import("melisma._worker")?.getattr("__file__")?.extract()?;
    Ok(Worker::Program(vec![python, script]))
}

/// Measures one candidate for the search that started this process, prints what was measured, and returns the exit code.
#[pyfunction(name = "_work")]
pub fn work(py: Python<'_>, spec: PathBuf) -> i32 {
    match py.detach(|| measured(&spec)) {
        Ok(done) => {
            println!("{done}");
            0
        }
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            if matches!(error.kind(), Kind::Device | Kind::Memory) { 4 } else { 2 }
        }
    }
}

fn measured(spec: &Path) -> Result<String> {
    let bytes = std::fs::read(spec).map_err(|error| Error::io(spec.display(), error))?;
    let spec: Spec =
        serde_json::from_slice(&bytes).map_err(|error| Error::invalid(format!("{}: {error}", spec.display())))?;
    // The other end is closed when the process that started this one is gone.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    serde_json::to_string(&search::work(&spec)?).map_err(|error| Error::invalid(error.to_string()))
}
