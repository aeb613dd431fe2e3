//! The settings of an engine that its candidate does not decide.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::{Config, DeviceRequest, Policy, Profile};
use crate::engine::onnxruntime::{Algorithms, Cudnn, Workspace};

/// Memory, device, TensorRT and cuDNN, as all candidates of a search have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSettings {
    /// Memory limit in bytes.
    pub memory_limit: Option<u64>,
    /// Limit on the memory of the GPU in bytes.
    pub gpu_limit: Option<u64>,
    /// Ordinal of the GPU.
    pub ordinal: usize,
    /// Whether f32 products may be rounded to TF32.
    pub tf32: bool,
    /// Size of TensorRT's workspace; `None` disables TensorRT.
    pub tensorrt_workspace: Option<u64>,
    /// Where TensorRT stores its engines.
    pub tensorrt_folder: PathBuf,
    /// The key of the engine.
    pub key: String,
    /// How cuDNN chooses its convolutions.
    pub cudnn: Cudnn,
    /// Where ONNX Runtime writes its profile.
    #[serde(default)]
    pub profile_folder: Option<PathBuf>,
}

impl EngineSettings {
    /// Returns settings for the CPU without limits.
    pub fn cpu() -> Self {
        Self {
            memory_limit: None,
            gpu_limit: None,
            ordinal: 0,
            tf32: false,
            tensorrt_workspace: None,
            tensorrt_folder: PathBuf::new(),
            key: String::new(),
            cudnn: Cudnn::default(),
            profile_folder: None,
        }
    }

    /// Returns the settings from `config`.
    pub fn new(config: &Config, tensorrt_folder: PathBuf, key: &str) -> Self {
        let policy = Policy::new(config);
        let ordinal = match config.device.value {
            DeviceRequest::Cuda(ordinal) => ordinal.into(),
            DeviceRequest::Auto | DeviceRequest::Cpu => 0,
        };
        Self {
            memory_limit: config.memory_limit.value.bytes(),
            gpu_limit: config.memory_limit.value.bytes(),
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

/// Returns how cuDNN searches: `emergency` lets it try every algorithm; other profiles use its
/// heuristic, which picks the same algorithm at every start. The largest workspace requires spare
/// memory.
fn cudnn(config: &Config) -> Cudnn {
    let is_tight = config.profile.value == Profile::Training || config.memory_limit.value.bytes().is_some();
    Cudnn {
        search: if config.profile.value == Profile::Emergency { Algorithms::Exhaustive } else { Algorithms::Heuristic },
        workspace: if is_tight { Workspace::Small } else { Workspace::Largest },
    }
}
