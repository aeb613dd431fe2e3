//! The requested device.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// A device as named by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceRequest {
    /// The first working GPU, otherwise the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this ordinal.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
