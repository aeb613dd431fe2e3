//! The parts that an engine depends on.

use std::path::Path;

use super::Request;
use super::candidate::chunk::Splitting;
use super::candidate::engines;
use super::measure::inputs;
use crate::config::{Config, DeviceRequest, Policy};
use crate::engine::{EngineName, onnxruntime};
use crate::format::hash;
use crate::optimize::cache::Parts;
use crate::runtime::device::instruction_set;
use crate::runtime::machine::{Machine, cpu_model};
use crate::{Result, onnx};

/// The machine parts that every engine depends on.
const CPU: [&str; 4] = ["cpu", "cpu_features", "instruction_set", "melisma"];
/// Further parts for engines on a GPU.
const GPU: [&str; 3] = ["device", "driver", "tf32"];
/// Further parts for TensorRT.
const TENSORRT: [&str; 2] = ["tensorrt", "tensorrt_library"];

pub(super) fn parts(config: &Config, request: &Request) -> Result<Parts> {
    let threads = config.threads.value.count();
    let requirements = &request.requirements;
    let engines = engines::available(config, requirements.engine)?;
    let engines: Vec<String> = engines.iter().map(|(name, version)| format!("{name} {version}")).collect();
    Ok(machine(config)?
        .with("model", onnx::fingerprint(&request.model, threads)?)
        .with("inputs", inputs::describe(request)?)
        .with("precision", requirements.precision)
        .with("tolerance", format!("{:e}", requirements.tolerance))
        .with("engine", requirements.engine.map_or("auto", EngineName::as_str))
        .with("engines", engines.join(", "))
        .with("objective", requirements.objective.map_or("auto".to_owned(), |objective| objective.to_string()))
        .with("threads", threads)
        .with("profile", config.profile.value)
        .with("memory_limit", config.memory_limit.value.bytes().map_or("none".to_owned(), |bytes| bytes.to_string()))
        .with("chunking", format!("{:?}", Splitting::of(config)))
        .with("calibration", calibration(request)?))
}

/// Returns the parts of the machine and its libraries, independent of the model.
pub(super) fn machine(config: &Config) -> Result<Parts> {
    let machine = Machine::detect();
    let policy = Policy::new(config);
    Ok(Parts::default()
        .with("device", device(config))
        .with("driver", driver(config))
        .with("cpu", format!("{}, {} cores", cpu_model(), machine.cores))
        .with("cpu_features", machine.features.join(" "))
        .with("instruction_set", instruction_set()?)
        .with("tf32", policy.precision.tf32)
        .with("tensorrt", format!("{:?}", policy.tensorrt.map(|tensorrt| tensorrt.workspace_bytes)))
        .with("tensorrt_library", tensorrt(config))
        .with("melisma", env!("CARGO_PKG_VERSION")))
}

/// Returns the parts of [`machine`] that `engine` depends on.
fn dependencies(machine: &Parts, engine: EngineName) -> Parts {
    let gpu = GPU.iter().filter(|_| engine.is_on_gpu());
    let tensorrt = TENSORRT.iter().filter(|_| engine == EngineName::OnnxruntimeTensorrt);
    let names = CPU.iter().chain(gpu).chain(tensorrt);
    names.fold(Parts::default(), |parts, name| parts.with(name, machine.get(name).unwrap_or("none")))
}

/// Returns the first machine part that matters to `engine` and differs from `made`, as
/// `name: theirs -> ours`.
pub(super) fn machine_change(made: &Parts, now: &Parts, engine: EngineName) -> Option<String> {
    dependencies(now, engine).changes_from(&dependencies(made, engine)).into_iter().next()
}

/// Returns the state that a passed self-check of `engine` depends on besides the entry's files: the
/// machine and the engine's code.
pub(super) fn state(config: &Config, engine: EngineName) -> Result<String> {
    let machine = dependencies(&machine(config)?, engine);
    let library = match engine.is_onnxruntime() {
        true => file_state(&onnxruntime::runtime()?.path)?,
        false => String::new(),
    };
    Ok(format!("{} {engine} {} {library}", machine.key().as_str(), engines::version(engine)?))
}

/// Identifies a file by its name, size and time.
fn file_state(path: &Path) -> Result<String> {
    let data = std::fs::metadata(path).map_err(|error| crate::Error::io(path.display(), error))?;
    Ok(format!("{} {} {:?}", path.display(), data.len(), data.modified().ok()))
}

fn device(config: &Config) -> String {
    match config.device.value {
        DeviceRequest::Cpu => "cpu".to_owned(),
        request => {
            let ordinal = if let DeviceRequest::Cuda(ordinal) = request { usize::from(ordinal) } else { 0 };
            match engines::probe().gpus.as_ref().ok().and_then(|gpus| gpus.get(ordinal)) {
                Some(gpu) => format!("{} sm_{}", gpu.name, gpu.architecture),
                None => "cpu".to_owned(),
            }
        }
    }
}

fn driver(config: &Config) -> String {
    match config.device.value {
        DeviceRequest::Cpu => "none".to_owned(),
        _ => engines::probe().driver_version.map_or("none".to_owned(), |version| format!("{version:?}")),
    }
}

/// Returns the version of TensorRT's library, if it may be used.
fn tensorrt(config: &Config) -> String {
    let is_wanted = config.device.value != DeviceRequest::Cpu && Policy::new(config).tensorrt.is_some();
    is_wanted.then(onnxruntime::tensorrt_version).flatten().unwrap_or_else(|| "none".to_owned())
}

/// Returns the hash of all calibration files.
fn calibration(request: &Request) -> Result<String> {
    let Some(folder) = &request.calibrate else { return Ok("none".to_owned()) };
    let mut hashes = Vec::new();
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| crate::Error::io(folder.display(), error))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && folder == *request.calibrate.as_ref().unwrap_or(&folder) {
                folders.push(path);
            } else if path.extension().is_some_and(|suffix| suffix == "npy") {
                let name = path.strip_prefix(request.calibrate.as_ref().unwrap_or(&folder)).unwrap_or(&path).to_owned();
                hashes.push(format!("{} {}", name.display(), hash::file(&path, 1)?));
            }
        }
    }
    hashes.sort();
    Ok(blake3::hash(hashes.join("\n").as_bytes()).to_hex().to_string())
}
