//! Engine names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// An engine, as named by `--engine`, reports and cache entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EngineName {
    /// The embedded engine, [`rten`](super::rten).
    Rten,
    /// Whichever of our own engines fits the model: [`EngineName::MelismaChain`] if it takes the
    /// model, otherwise [`EngineName::MelismaMixed`]. Cache entries that predate the two names use
    /// this one too.
    Melisma,
    /// Our own kernels for an entire chain of convolutions, [`chain`](super::ours::chain).
    MelismaChain,
    /// Our own convolutions among the operators of the embedded engine, [`mixed`](super::ours::mixed).
    MelismaMixed,
    /// ONNX Runtime on the CPU.
    Onnxruntime,
    /// ONNX Runtime with its CUDA provider.
    OnnxruntimeCuda,
    /// ONNX Runtime with its TensorRT provider.
    OnnxruntimeTensorrt,
}

impl EngineName {
    /// All names.
    pub const ALL: [Self; 7] = [
        Self::Rten,
        Self::Melisma,
        Self::MelismaChain,
        Self::MelismaMixed,
        Self::Onnxruntime,
        Self::OnnxruntimeCuda,
        Self::OnnxruntimeTensorrt,
    ];

    /// Returns the name as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::Melisma => "melisma",
            Self::MelismaChain => "melisma-chain",
            Self::MelismaMixed => "melisma-mixed",
            Self::Onnxruntime => "onnxruntime",
            Self::OnnxruntimeCuda => "onnxruntime-cuda",
            Self::OnnxruntimeTensorrt => "onnxruntime-tensorrt",
        }
    }

    /// Returns whether it runs on a GPU.
    pub fn is_on_gpu(self) -> bool {
        matches!(self, Self::OnnxruntimeCuda | Self::OnnxruntimeTensorrt)
    }

    /// Returns whether ONNX Runtime runs it.
    pub fn is_onnxruntime(self) -> bool {
        self == Self::Onnxruntime || self.is_on_gpu()
    }

    /// Returns whether it runs on our own kernels.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Melisma | Self::MelismaChain | Self::MelismaMixed)
    }

    /// Returns whether `other` satisfies a request for this engine: `melisma` means either of our
    /// own.
    pub fn includes(self, other: Self) -> bool {
        self == other || (self == Self::Melisma && other.is_ours())
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|name| name.as_str()).collect();
            Error::invalid(format!("unknown engine `{text}`")).with_hint(format!("use auto, {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_text_and_json() {
        for name in EngineName::ALL {
            assert_eq!(name.as_str().parse::<EngineName>().unwrap(), name);
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<EngineName>(&format!("\"{name}\"")).unwrap(), name);
        }
        assert_eq!("warp".parse::<EngineName>().unwrap_err().to_string(), "unknown engine `warp`");
    }

    #[test]
    fn melisma_stands_for_both_of_our_own() {
        let included =
            |asked: EngineName| EngineName::ALL.into_iter().filter(move |name| asked.includes(*name)).count();
        assert_eq!((included(EngineName::Melisma), included(EngineName::MelismaChain)), (3, 1));
    }
}
