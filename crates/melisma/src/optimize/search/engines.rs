//! The engines that there are on this machine, by name, and how each is opened.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::{Candidate, Chunk};
use crate::engine::chunked::{Chunked, Reach};
use crate::engine::onnxruntime::{self, Algorithms, Cuda, Cudnn, Onnxruntime, Provider, TensorRt, Workspace};
use crate::engine::ours::{chain, mixed};
use crate::engine::{Engine, Port, rten};
use crate::onnx::{Dim, Model, ValueType};
use crate::runtime::device::{self, cuda};
use crate::runtime::{Config, DeviceRequest, Policy, Profile};
use crate::{Error, Kind, Remedy, Result};

/// Every name that `--engine` takes.
pub const NAMES: [&str; 5] = ["rten", "melisma", "onnxruntime", "onnxruntime-cuda", "onnxruntime-tensorrt"];

/// Those that work on GPUs.
const ON_GPU: [&str; 2] = ["onnxruntime-cuda", "onnxruntime-tensorrt"];

/// What engines are told beside the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The most bytes of memory.
    pub memory_limit: Option<u64>,
    /// Which GPU.
    pub ordinal: usize,
    /// Whether f32 products may be rounded to TF32.
    pub tf32: bool,
    /// TensorRT's workspace; none switches it off.
    pub tensorrt_workspace: Option<u64>,
    /// Where TensorRT stores what it builds.
    pub tensorrt_folder: PathBuf,
    /// The key of the engine.
    pub key: String,
    /// How cuDNN chooses its convolutions.
    pub cudnn: Cudnn,
    /// Where ONNX Runtime writes its times, if anybody asks.
    #[serde(default)]
    pub profile_folder: Option<PathBuf>,
}

impl Surroundings {
    /// Nothing but a CPU.
    pub fn cpu() -> Self {
        Self {
            memory_limit: None,
            ordinal: 0,
            tf32: false,
            tensorrt_workspace: None,
            tensorrt_folder: PathBuf::new(),
            key: String::new(),
            cudnn: Cudnn::default(),
            profile_folder: None,
        }
    }

    /// Those of `config`.
    pub fn new(config: &Config, tensorrt_folder: PathBuf, key: &str) -> Self {
        let policy = Policy::new(config);
        let ordinal = match config.device.value {
            DeviceRequest::Cuda(ordinal) => ordinal.into(),
            DeviceRequest::Auto | DeviceRequest::Cpu => 0,
        };
        Self {
            memory_limit: config.memory_limit.value.bytes(),
            ordinal,
            tf32: policy.precision.tf32,
            tensorrt_workspace: policy.tensorrt.map(|tensorrt| tensorrt.workspace_bytes),
            tensorrt_folder,
            key: key.to_owned(),
            cudnn: cudnn(config),
            profile_folder: None,
        }
    }
}

/// `emergency` has cuDNN try every algorithm; others take its heuristic, which gives the same one at every start. Its largest
/// workspace is only for those who have the memory.
fn cudnn(config: &Config) -> Cudnn {
    let is_tight = config.profile.value == Profile::Training || config.memory_limit.value.bytes().is_some();
    Cudnn {
        search: if config.profile.value == Profile::Emergency { Algorithms::Exhaustive } else { Algorithms::Heuristic },
        workspace: if is_tight { Workspace::Small } else { Workspace::Largest },
    }
}

/// Whether the engine works on a GPU.
pub(super) fn is_on_gpu(engine: &str) -> bool {
    ON_GPU.contains(&engine)
}

/// The engine of that name.
///
/// # Errors
/// It is unknown.
pub(super) fn known(named: &str) -> Result<&'static str> {
    NAMES.into_iter().find(|name| *name == named).ok_or_else(|| {
        Error::invalid(format!("unknown engine `{named}`")).with_hint(format!("use auto, {}", NAMES.join(", ")))
    })
}

/// The engines to try with their versions. A named engine is returned alone; opening it may fail.
///
/// # Errors
/// The named engine is unknown, its library is missing, or no engine works on the device.
pub fn available(config: &Config, named: Option<&str>) -> Result<Vec<(&'static str, String)>> {
    let on_gpu = on_gpu(config)?;
    let device = config.device.value;
    if let Some(named) = named {
        let known = known(named)?;
        if matches!(device, DeviceRequest::Cuda(_)) != is_on_gpu(known) && device != DeviceRequest::Auto {
            return Err(Error::invalid(format!("the engine {known} does not work on {device}"))
                .with_hint(Remedy::UseDevice(&["auto"]))
                .or_hint(Remedy::UseEngine(None)));
        }
        let version = version(known)?;
        return Ok(vec![(known, version)]);
    }
    let tensorrt = Policy::new(config).tensorrt.is_some();
    let wanted = NAMES.into_iter().filter(|name| match *name {
        "onnxruntime-cuda" => on_gpu && onnxruntime::find_provider("cuda").is_ok(),
        "onnxruntime-tensorrt" => on_gpu && tensorrt && onnxruntime::find_provider("tensorrt").is_ok(),
        _ => !matches!(device, DeviceRequest::Cuda(_)),
    });
    let found: Vec<_> = wanted.filter_map(|name| Some((name, version(name).ok()?))).collect();
    if found.is_empty() {
        return Err(Error::new(Kind::Device, format!("no engine works on {device}"))
            .with_hint("set MELISMA_ONNXRUNTIME to the library of ONNX Runtime's GPU build"));
    }
    Ok(found)
}

/// The GPUs of this machine, probed once.
pub(super) fn probe() -> &'static cuda::Probe {
    static FOUND: OnceLock<cuda::Probe> = OnceLock::new();
    FOUND.get_or_init(cuda::probe)
}

/// Whether a GPU is used.
///
/// # Errors
/// One is asked for that is not there.
fn on_gpu(config: &Config) -> Result<bool> {
    // Probing starts the driver, which takes a third of a second: not for the CPU.
    let count = || probe().gpus.as_ref().map_or(0, Vec::len);
    match config.device.value {
        DeviceRequest::Cpu => Ok(false),
        DeviceRequest::Auto => Ok(count() > 0),
        DeviceRequest::Cuda(ordinal) if usize::from(ordinal) < count() => Ok(true),
        request => device::select(request, config.threads.value).map(|_| true),
    }
}

/// The version of an engine that is here.
pub(super) fn version(name: &str) -> Result<String> {
    Ok(match name {
        "rten" => rten::VERSION.to_owned(),
        "melisma" => env!("CARGO_PKG_VERSION").to_owned(),
        _ => onnxruntime::runtime()?.version.clone(),
    })
}

/// Opens the engine of `candidate` for `model`, which has the candidate's precision already. Engines without steps of their
/// own are run on pieces where the candidate has chunks.
///
/// # Errors
/// The engine is not there, or does not take the model.
pub fn open(model: &Model, candidate: &Candidate, surroundings: &Surroundings) -> Result<Box<dyn Engine>> {
    if candidate.engine == chain::NAME
        && let Ok(chain) = chain::build(model, &candidate.options())
    {
        return Ok(match candidate.chunk {
            Chunk::Of(len) => Box::new(chain.with_step(len)),
            Chunk::Whole => Box::new(chain.with_step(usize::MAX)),
            Chunk::Own => Box::new(chain),
        });
    }
    match candidate.chunk {
        Chunk::Of(len) => {
            let reach = Reach::of(model)?;
            let engine = open_whole(&open_time(model), candidate, surroundings)?;
            Ok(Box::new(Chunked::new(engine, reach, len)))
        }
        Chunk::Whole | Chunk::Own => open_whole(model, candidate, surroundings),
    }
}

/// As [`open`], with a model that is not needed any more: the embedded engine takes its weights instead of copies.
pub(super) fn open_from(model: Model, candidate: &Candidate, surroundings: &Surroundings) -> Result<Box<dyn Engine>> {
    match candidate.chunk {
        Chunk::Own | Chunk::Whole if candidate.engine == rten::NAME => {
            Ok(Box::new(rten::build_from(model, &candidate.options())?))
        }
        _ => open(&model, candidate, surroundings),
    }
}

/// The model with inputs and outputs of any length.
fn open_time(model: &Model) -> Model {
    let mut model = model.clone();
    let graph = &mut model.graph;
    graph.infos.clear();
    for (value, name) in graph
        .inputs
        .iter_mut()
        .map(|value| (value, "time"))
        .chain(graph.outputs.iter_mut().map(|value| (value, "samples")))
    {
        if let ValueType::Tensor { shape: Some(axes), .. } = &mut value.r#type
            && let [_, _, time] = axes.as_mut_slice()
        {
            *time = Dim::Named(name.to_owned());
        }
    }
    model
}

fn open_whole(model: &Model, candidate: &Candidate, surroundings: &Surroundings) -> Result<Box<dyn Engine>> {
    let options = candidate.options();
    match candidate.engine.as_str() {
        "rten" => Ok(Box::new(rten::build(model, &options)?)),
        "melisma" => Ok(Box::new(mixed::build(model, &options)?)),
        _ => {
            let provider = provider(model, candidate, surroundings)?;
            if let Provider::TensorRt(TensorRt { folder, .. }) = &provider {
                std::fs::create_dir_all(folder).map_err(|error| crate::runtime::output::failed(folder, error))?;
            }
            let folder = surroundings.profile_folder.as_deref();
            Ok(Box::new(Onnxruntime::new(model, &options, (&provider, folder))?))
        }
    }
}

/// ONNX Runtime's provider for `candidate`, and what it is told.
///
/// # Errors
/// The engine is unknown, or switched off.
pub(super) fn provider(model: &Model, candidate: &Candidate, surroundings: &Surroundings) -> Result<Provider> {
    let cuda = || Cuda {
        ordinal: surroundings.ordinal,
        memory_limit: surroundings.memory_limit,
        tf32: surroundings.tf32,
        cudnn: surroundings.cudnn,
    };
    match candidate.engine.as_str() {
        "onnxruntime" => Ok(Provider::Cpu),
        "onnxruntime-cuda" => Ok(Provider::Cuda(cuda())),
        "onnxruntime-tensorrt" => {
            let Some(workspace_bytes) = surroundings.tensorrt_workspace else {
                return Err(Error::unsupported("TensorRT is switched off")
                    .with_hint(Remedy::Set { key: "use_tensorrt", value: "true" })
                    .or_hint("use another profile than training"));
            };
            Ok(Provider::TensorRt(TensorRt {
                cuda: cuda(),
                workspace_bytes,
                precision: candidate.precision,
                shapes: shapes(model)?,
                folder: surroundings.tensorrt_folder.clone(),
                key: surroundings.key.clone(),
            }))
        }
        other => Err(Error::invalid(format!("unknown engine `{other}`"))),
    }
}

/// The shapes of inputs that are fixed.
fn shapes(model: &Model) -> Result<Vec<(String, Vec<usize>)>> {
    let fixed = |port: &Port| {
        let axes = port.shape.as_ref()?.iter().map(|dim| match dim {
            Dim::Known(axis) => usize::try_from(*axis).ok(),
            _ => None,
        });
        Some((port.name.clone(), axes.collect::<Option<Vec<_>>>()?))
    };
    Ok(Port::inputs(model)?.iter().filter_map(fixed).collect())
}
