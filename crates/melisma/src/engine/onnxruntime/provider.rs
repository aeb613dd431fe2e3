//! Providers and their options.
//!
//! TensorRT's cache names do not depend on weights, so it can confuse the engines of two models.
//! Each key of our cache therefore has its own folder and prefix.

use std::path::PathBuf;

use ort::ep::{self, ArbitrarilyConfigurableExecutionProvider};
use ort::session::builder::SessionBuilder;
use serde::{Deserialize, Serialize};

use super::library::how_to_get_provider;
use crate::config::precision::Format;
use crate::engine::EngineName;
use crate::{Error, ErrorKind, Remedy, Result};

/// The hardware that a session computes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provider {
    /// The CPU.
    Cpu,
    /// A GPU.
    Cuda(Cuda),
    /// A GPU through TensorRT, with the CUDA provider for nodes that TensorRT rejects.
    TensorRt(TensorRt),
}

/// Options of the CUDA provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cuda {
    /// Ordinal of the GPU.
    pub ordinal: usize,
    /// Limit on GPU memory in bytes.
    pub memory_limit: Option<u64>,
    /// Whether f32 products may round their factors to TF32.
    pub tf32: bool,
    /// How cuDNN chooses its convolutions.
    pub cudnn: Cudnn,
}

/// How cuDNN chooses its convolutions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cudnn {
    /// Which algorithms it considers.
    pub search: Algorithms,
    /// The memory that an algorithm may use besides its tensors.
    pub workspace: Workspace,
}

/// Which algorithms cuDNN considers for a convolution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithms {
    /// Runs each once and takes the fastest: slow to start, and the choice may vary.
    Exhaustive,
    /// Takes the one that its tables suggest.
    #[default]
    Heuristic,
}

/// The memory that a cuDNN algorithm may use besides its tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workspace {
    /// As much as the fastest algorithm needs.
    #[default]
    Largest,
    /// At most ONNX Runtime's own limit of 32 MiB.
    Small,
}

/// Options of the TensorRT provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorRt {
    /// Options of the CUDA provider that it falls back to.
    pub cuda: Cuda,
    /// Limit in bytes on the workspace of its tactics.
    pub workspace_bytes: u64,
    /// The format that it may compute in.
    pub precision: Format,
    /// The shape of each input.
    pub shapes: Vec<(String, Vec<usize>)>,
    /// Where it caches its engines: a folder for this key only.
    pub folder: PathBuf,
    /// The key, used as a prefix of its files.
    pub key: String,
}

/// Where providers are registered: a session, or a recorder in tests.
pub trait Register {
    /// Registers the provider called `name` with `options`; the session fails without it.
    ///
    /// # Errors
    /// The provider is not available.
    fn demand(&mut self, name: &'static str, options: &[(String, String)]) -> Result<()>;
}

const CUDA: &str = "CUDAExecutionProvider";
const TENSORRT: &str = "TensorrtExecutionProvider";

impl Provider {
    /// Returns the engine's name with this provider.
    pub fn name(&self) -> EngineName {
        match self {
            Self::Cpu => EngineName::Onnxruntime,
            Self::Cuda(_) => EngineName::OnnxruntimeCuda,
            Self::TensorRt(_) => EngineName::OnnxruntimeTensorrt,
        }
    }

    /// Registers the provider and its per-node fallback.
    ///
    /// # Errors
    /// The provider is not available.
    pub fn register(&self, session: &mut dyn Register) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            Self::Cuda(cuda) => session.demand(CUDA, &cuda.options()),
            Self::TensorRt(tensorrt) => {
                session.demand(TENSORRT, &tensorrt.options())?;
                session.demand(CUDA, &tensorrt.cuda.options())
            }
        }
    }
}

impl Cuda {
    /// Returns keys and values with ONNX Runtime's names.
    pub fn options(&self) -> Vec<(String, String)> {
        let search = match self.cudnn.search {
            Algorithms::Exhaustive => "EXHAUSTIVE",
            Algorithms::Heuristic => "HEURISTIC",
        };
        let mut options = vec![
            pair("device_id", self.ordinal),
            pair("use_tf32", u8::from(self.tf32)),
            pair("cudnn_conv_algo_search", search),
            pair("cudnn_conv_use_max_workspace", u8::from(self.cudnn.workspace == Workspace::Largest)),
            // Pads the one-dimensional convolutions of audio models as rows, not as columns.
            pair("cudnn_conv1d_pad_to_nc1d", 1),
        ];
        if let Some(limit) = self.memory_limit {
            // Without this, the arena doubles and exceeds the request.
            options.push(pair("arena_extend_strategy", "kSameAsRequested"));
            options.push(pair("gpu_mem_limit", limit));
        }
        options
    }
}

impl TensorRt {
    /// Allows FP32 within `workspace_bytes`, with engines in `folder` under `key`.
    pub fn new(workspace_bytes: u64, folder: impl Into<PathBuf>, key: impl Into<String>) -> Self {
        Self {
            cuda: Cuda::default(),
            workspace_bytes,
            precision: Format::Fp32,
            shapes: Vec::new(),
            folder: folder.into(),
            key: key.into(),
        }
    }

    /// Returns keys and values with ONNX Runtime's names.
    pub fn options(&self) -> Vec<(String, String)> {
        let shapes: Vec<String> = self.shapes.iter().map(|(name, shape)| format!("{name}:{}", by_x(shape))).collect();
        let (shapes, folder) = (shapes.join(","), self.folder.display().to_string());
        vec![
            pair("device_id", self.cuda.ordinal),
            pair("trt_max_workspace_size", self.workspace_bytes),
            pair("trt_fp16_enable", u8::from(self.precision == Format::Fp16)),
            pair("trt_bf16_enable", u8::from(self.precision == Format::Bf16)),
            pair("trt_int8_enable", u8::from(self.precision == Format::Int8)),
            pair("trt_profile_min_shapes", &shapes),
            pair("trt_profile_opt_shapes", &shapes),
            pair("trt_profile_max_shapes", &shapes),
            pair("trt_engine_cache_enable", 1),
            pair("trt_engine_cache_path", &folder),
            pair("trt_engine_cache_prefix", &self.key),
            pair("trt_timing_cache_enable", 1),
            pair("trt_timing_cache_path", &folder),
        ]
    }
}

fn pair(key: &str, value: impl ToString) -> (String, String) {
    (key.to_owned(), value.to_string())
}

fn by_x(shape: &[usize]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

pub(super) struct Session(pub(super) SessionBuilder);

impl Register for Session {
    fn demand(&mut self, name: &'static str, options: &[(String, String)]) -> Result<()> {
        let (provider, short) = match name {
            CUDA => (with_options(ep::CUDA::default(), options).build(), "cuda"),
            TENSORRT => (with_options(ep::TensorRT::default(), options).build(), "tensorrt"),
            other => return Err(Error::unsupported(format!("onnxruntime: unknown provider `{other}`"))),
        };
        provider.register(&mut self.0).map_err(|error| {
            let reason = error.to_string();
            Error::new(ErrorKind::Device, format!("onnxruntime: {name}: {}", super::first_line(&reason)))
                .with_hint(how_to_get_provider(short))
                .or_hint(Remedy::use_engine("auto"))
        })
    }
}

fn with_options<P: ArbitrarilyConfigurableExecutionProvider>(provider: P, options: &[(String, String)]) -> P {
    options.iter().fold(provider, |provider, (key, value)| provider.with_arbitrary_config(key, value))
}
