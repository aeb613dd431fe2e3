//! Which device is asked for, and which one is used.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;

use crate::{Error, Result};

/// A device as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceRequest {
    /// The first GPU that works, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// That GPU.
    Cuda(u16),
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for DeviceRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(|index| index.parse().ok()).map(Self::Cuda).ok_or_else(|| {
                Error::invalid(format!("`{text}` is not a device")).with_hint("use auto, cpu, cuda or cuda:N")
            }),
        }
    }
}

/// The device that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selected {
    /// `cpu` or `cuda:N`, as in every JSON object's `device`.
    pub name: String,
    /// The product's name.
    pub description: String,
}

/// What was found of CUDA on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CudaReport {
    /// The driver's own line about itself.
    pub driver: Option<String>,
    /// GPUs that the driver lists.
    pub gpus: Vec<String>,
    /// Where NVRTC was found.
    pub nvrtc: Option<String>,
    /// Where cuBLASLt was found.
    pub cublaslt: Option<String>,
    /// Why CUDA cannot be used, if it cannot.
    pub missing: Option<String>,
}

/// Picks the device: an explicit request is served or refused, never replaced.
///
/// # Errors
/// [`Kind::Device`](crate::Kind) when a GPU is asked for that this process cannot use.
pub fn select(request: DeviceRequest) -> Result<Selected> {
    let cuda = cuda_report();
    match (request, cuda.missing) {
        (DeviceRequest::Cuda(index), Some(reason)) => Err(Error::device(format!("cuda:{index}: {reason}"))
            .with_hint("install the NVIDIA driver, or use --device cpu; `melisma doctor` shows what was found")),
        (DeviceRequest::Cuda(index), None) => gpu(&cuda.gpus, index),
        (DeviceRequest::Auto, None) => gpu(&cuda.gpus, 0),
        (DeviceRequest::Auto | DeviceRequest::Cpu, _) => {
            Ok(Selected { name: "cpu".to_owned(), description: super::machine::cpu_model() })
        }
    }
}

fn gpu(gpus: &[String], index: u16) -> Result<Selected> {
    match gpus.get(usize::from(index)) {
        Some(description) => Ok(Selected { name: format!("cuda:{index}"), description: description.clone() }),
        None => Err(Error::device(format!("cuda:{index}: this machine has {} GPUs", gpus.len()))
            .with_hint("GPUs are counted from 0; `melisma doctor` lists them")),
    }
}

/// Looks for the driver and its GPUs without using them.
pub fn cuda_report() -> CudaReport {
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version")
        .ok()
        .and_then(|text| text.lines().next().map(str::to_owned));
    let gpus = listed_gpus(Path::new("/proc/driver/nvidia/gpus"));
    let reason = if driver.is_some() { "this build has no CUDA kernels" } else { "there is no NVIDIA driver" };
    CudaReport { driver, gpus, nvrtc: None, cublaslt: None, missing: Some(reason.to_owned()) }
}

fn listed_gpus(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path().join("information")).collect();
    paths.sort();
    let model = |text: String| text.lines().find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_owned()));
    paths.iter().filter_map(|path| std::fs::read_to_string(path).ok().and_then(model)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn reads_device_names() {
        for (text, request) in [
            ("auto", DeviceRequest::Auto),
            ("cpu", DeviceRequest::Cpu),
            ("cuda", DeviceRequest::Cuda(0)),
            ("cuda:7", DeviceRequest::Cuda(7)),
        ] {
            assert_eq!(text.parse::<DeviceRequest>().unwrap(), request);
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999", "CPU"] {
            assert!(text.parse::<DeviceRequest>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_explicit_gpu_is_never_replaced() {
        assert_eq!(select(DeviceRequest::Cpu).unwrap().name, "cpu");
        if let Err(error) = select(DeviceRequest::Cuda(9999)) {
            assert_eq!(error.kind(), Kind::Device);
            assert!(error.to_string().starts_with("cuda:9999: "), "{error}");
        }
    }
}
