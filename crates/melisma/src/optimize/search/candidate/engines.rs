//! The engines available on this machine, and how to open each.

use std::sync::OnceLock;

use super::{Candidate, Chunk, EngineSettings};
use crate::config::{Config, DeviceRequest, Policy};
use crate::engine::chunked::{Chunked, Reach};
use crate::engine::onnxruntime::{self, Cuda, Onnxruntime, Provider, TensorRt};
use crate::engine::ours::{chain, mixed};
use crate::engine::{Engine, EngineName, Port, rten};
use crate::onnx::{Dim, Model, ValueType};
use crate::runtime::device::{self, cuda};
use crate::runtime::memory::Budget;
use crate::{Error, ErrorKind, Remedy, Result};

/// The engines that a search tries; `melisma` means whichever of our own engines fits the model.
const TRIED: [EngineName; 5] = [
    EngineName::Rten,
    EngineName::Melisma,
    EngineName::Onnxruntime,
    EngineName::OnnxruntimeCuda,
    EngineName::OnnxruntimeTensorrt,
];

/// Returns the engines to try with their versions. A named engine is returned alone; opening it may
/// fail.
///
/// # Errors
/// The named engine's library is missing, or no engine works on the device.
pub fn available(config: &Config, named: Option<EngineName>) -> Result<Vec<(EngineName, String)>> {
    let on_gpu = on_gpu(config)?;
    let device = config.device.value;
    if let Some(named) = named {
        if matches!(device, DeviceRequest::Cuda(_)) != named.is_on_gpu() && device != DeviceRequest::Auto {
            return Err(Error::invalid(format!("the engine {named} does not work on {device}"))
                .with_hint(Remedy::use_device(&["auto"]))
                .or_hint(Remedy::UseEngine(None)));
        }
        return Ok(vec![(named, version(named)?)]);
    }
    let tensorrt = Policy::new(config).tensorrt.is_some();
    let wanted = TRIED.into_iter().filter(|name| match *name {
        EngineName::OnnxruntimeCuda => on_gpu && onnxruntime::find_provider("cuda").is_ok(),
        EngineName::OnnxruntimeTensorrt => on_gpu && tensorrt && onnxruntime::find_provider("tensorrt").is_ok(),
        _ => !matches!(device, DeviceRequest::Cuda(_)),
    });
    let found: Vec<_> = wanted.filter_map(|name| Some((name, version(name).ok()?))).collect();
    if found.is_empty() {
        return Err(Error::new(ErrorKind::Device, format!("no engine works on {device}"))
            .with_hint(onnxruntime::how_to_get_provider("cuda")));
    }
    Ok(found)
}

/// Returns the machine's GPUs, probed once.
pub(in crate::optimize::search) fn probe() -> &'static cuda::Probe {
    static FOUND: OnceLock<cuda::Probe> = OnceLock::new();
    FOUND.get_or_init(cuda::probe)
}

/// Returns whether to use a GPU.
///
/// # Errors
/// The requested GPU is missing.
fn on_gpu(config: &Config) -> Result<bool> {
    // Probing starts the driver and takes a third of a second, so CPU runs skip it.
    let count = || probe().gpus.as_ref().map_or(0, Vec::len);
    match config.device.value {
        DeviceRequest::Cpu => Ok(false),
        DeviceRequest::Auto => Ok(count() > 0),
        DeviceRequest::Cuda(ordinal) if usize::from(ordinal) < count() => Ok(true),
        request => device::select(request, config.threads.value).map(|_| true),
    }
}

/// Returns the bytes free on the GPU that `config` selects; `None` on the CPU.
pub(in crate::optimize::search) fn free_gpu_bytes(config: &Config) -> Option<u64> {
    let ordinal = match config.device.value {
        DeviceRequest::Cpu => return None,
        DeviceRequest::Auto => 0,
        DeviceRequest::Cuda(ordinal) => usize::from(ordinal),
    };
    Some(probe().gpus.as_ref().ok()?.get(ordinal)?.free_bytes)
}

/// Returns the version of an engine on this machine.
pub(in crate::optimize::search) fn version(name: EngineName) -> Result<String> {
    Ok(match name {
        EngineName::Rten => rten::VERSION.to_owned(),
        EngineName::Melisma | EngineName::MelismaChain | EngineName::MelismaMixed => {
            env!("CARGO_PKG_VERSION").to_owned()
        }
        EngineName::Onnxruntime | EngineName::OnnxruntimeCuda | EngineName::OnnxruntimeTensorrt => {
            onnxruntime::runtime()?.version.clone()
        }
    })
}

/// Opens the engine of `candidate` for `model`, which already has the candidate's precision.
/// Engines that cannot step by themselves run on pieces if the candidate has chunks.
///
/// # Errors
/// The engine is not available, or does not take the model.
pub fn open(
    model: &Model,
    candidate: &Candidate,
    settings: &EngineSettings,
    budget: &Budget,
) -> Result<Box<dyn Engine>> {
    match candidate.engine {
        EngineName::MelismaChain => return open_chain(model, candidate, budget),
        EngineName::Melisma => {
            if let Ok(engine) = open_chain(model, candidate, budget) {
                return Ok(engine);
            }
        }
        _ => {}
    }
    match candidate.chunk {
        Chunk::Of(len) => {
            let reach = Reach::of(model)?;
            let engine = open_whole(&open_time(model), candidate, settings, budget)?;
            Ok(Box::new(Chunked::new(engine, reach, len)))
        }
        Chunk::Whole | Chunk::Own => open_whole(model, candidate, settings, budget),
    }
}

fn open_chain(model: &Model, candidate: &Candidate, budget: &Budget) -> Result<Box<dyn Engine>> {
    let chain = chain::build(model, &candidate.options(), budget)?;
    Ok(match candidate.chunk {
        Chunk::Of(len) => Box::new(chain.with_step(len)),
        Chunk::Whole => Box::new(chain.with_step(usize::MAX)),
        Chunk::Own => Box::new(chain),
    })
}

/// Works like [`open`], but consumes the model: the embedded engine takes its weights instead of copying
/// them.
pub(in crate::optimize::search) fn open_from(
    model: Model,
    candidate: &Candidate,
    settings: &EngineSettings,
    budget: &Budget,
) -> Result<Box<dyn Engine>> {
    match candidate.chunk {
        Chunk::Own | Chunk::Whole if candidate.engine == rten::NAME => {
            Ok(Box::new(rten::build_from(model, &candidate.options())?))
        }
        _ => open(&model, candidate, settings, budget),
    }
}

/// Returns the model with a variable time axis in its inputs and outputs.
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

fn open_whole(
    model: &Model,
    candidate: &Candidate,
    settings: &EngineSettings,
    budget: &Budget,
) -> Result<Box<dyn Engine>> {
    let options = candidate.options();
    match provider(model, candidate, settings)? {
        None if candidate.engine == EngineName::Rten => Ok(Box::new(rten::build(model, &options)?)),
        None => Ok(Box::new(mixed::build(model, &options, budget)?)),
        Some(provider) => {
            if let Provider::TensorRt(TensorRt { folder, .. }) = &provider {
                std::fs::create_dir_all(folder).map_err(|error| crate::output::failed(folder, error))?;
            }
            let folder = settings.profile_folder.as_deref();
            Ok(Box::new(Onnxruntime::new(model, &options, (&provider, folder))?))
        }
    }
}

/// Returns ONNX Runtime's provider for `candidate` with its options; `None` if another engine runs it.
///
/// # Errors
/// The provider is switched off.
pub(in crate::optimize::search) fn provider(
    model: &Model,
    candidate: &Candidate,
    settings: &EngineSettings,
) -> Result<Option<Provider>> {
    let cuda = || Cuda {
        ordinal: settings.ordinal,
        memory_limit: settings.gpu_limit,
        tf32: settings.tf32,
        cudnn: settings.cudnn,
    };
    Ok(Some(match candidate.engine {
        EngineName::Rten | EngineName::Melisma | EngineName::MelismaChain | EngineName::MelismaMixed => {
            return Ok(None);
        }
        EngineName::Onnxruntime => Provider::Cpu,
        EngineName::OnnxruntimeCuda => Provider::Cuda(cuda()),
        EngineName::OnnxruntimeTensorrt => {
            let Some(workspace_bytes) = settings.tensorrt_workspace else {
                return Err(Error::unsupported("TensorRT is switched off")
                    .with_hint(Remedy::set("use_tensorrt", "true"))
                    .or_hint("use another profile than training"));
            };
            Provider::TensorRt(TensorRt {
                cuda: cuda(),
                workspace_bytes,
                precision: candidate.precision,
                shapes: shapes(model)?,
                folder: settings.tensorrt_folder.clone(),
                key: settings.key.clone(),
            })
        }
    }))
}

/// Returns the shapes of the inputs with fixed shapes.
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
