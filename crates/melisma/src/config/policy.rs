//! Resolves the section `tensor_optimizations` and related keys into a policy.

use melisma_kernels::layer::step::Rounding;

use super::precision;
use super::precision::{Format, Lowering, Precision};
use super::{ChunkSize, Config};
use crate::{Error, Result};

/// Whether and how a large operation is split by rows. It never affects results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunking {
    /// Never: work that does not fit is rejected.
    Off,
    /// Always, this many rows at a time.
    Rows(u64),
    /// Only when the free memory requires it, with as many rows as fit.
    Auto,
}

/// Whether operations may overwrite their inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Outputs have their own memory.
    Separate,
    /// Outputs replace inputs that are no longer needed.
    InPlace,
}

/// Limits for TensorRT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorRt {
    /// Limit in bytes on the workspace of its tactics.
    pub workspace_bytes: u64,
}

/// The resolved settings that other modules act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Number formats.
    pub precision: Precision,
    /// Splitting.
    pub chunking: Chunking,
    /// Reuse of memory.
    pub placement: Placement,
    /// Set if TensorRT is enabled.
    pub tensorrt: Option<TensorRt>,
}

impl Policy {
    /// Returns the policy of `config`. With `enabled: false`, the other keys of the section have no
    /// effect.
    pub fn new(config: &Config) -> Self {
        let request = config.precision.value;
        let tf32 = config.tf32.value;
        if !config.enabled.value {
            return Self { precision: Precision { tf32, ..Precision::new(request, Lowering::Never) }, ..Self::off() };
        }
        let lowering = match (config.mixed_precision.value, config.target_precision.value) {
            (false, _) | (true, Format::Fp32) => Lowering::Never,
            (true, format) => Lowering::To(format),
        };
        Self {
            precision: Precision { tf32, ..Precision::new(request, lowering) },
            chunking: match (config.chunk_large_tensors.value, config.chunk_size.value) {
                (false, _) => Chunking::Off,
                (true, ChunkSize::Auto) => Chunking::Auto,
                (true, ChunkSize::Rows(rows)) => Chunking::Rows(rows.get()),
            },
            placement: if config.memory_efficient.value { Placement::InPlace } else { Placement::Separate },
            tensorrt: config.use_tensorrt.value.then_some(TensorRt { workspace_bytes: config.trt_workspace.value.0 }),
        }
    }

    /// Returns the rounding that codecs and language models may use on a GPU. The CPU always computes in FP32.
    ///
    /// # Errors
    /// `Unsupported` for a precision that they do not have.
    #[doc(hidden)]
    pub fn rounding(&self) -> Result<Rounding> {
        match self.precision.audible.storage {
            Format::Fp16 | Format::Int8 => {
                Err(Error::unsupported(format!("no {} products", self.precision.audible.storage))
                    .with_hint("use precision bf16, or tf32: true; fp32 is the default"))
            }
            Format::Bf16 => Ok(Rounding::Bf16),
            Format::Fp32 if self.precision.tf32 => Ok(Rounding::Tf32),
            Format::Fp32 => Ok(Rounding::Off),
        }
    }

    fn off() -> Self {
        Self {
            precision: Precision::new(precision::Request::Fp32, Lowering::Never),
            chunking: Chunking::Off,
            placement: Placement::Separate,
            tensorrt: None,
        }
    }
}
