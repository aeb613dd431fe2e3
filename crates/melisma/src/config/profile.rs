//! Profiles: named presets that override the defaults and that user settings override.

use crate::text::word::words;

/// The priority of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Maximum speed: TensorRT or else the fastest engine, no chunking, all cores. A memory limit
    /// that would require chunking is rejected.
    Emergency,
    /// Balanced: the fastest engine within the free memory, in chunks where the memory needs them.
    Field,
    /// Least memory, and one busy core: FP32, no TensorRT, in chunks and in place, one thread.
    Training,
}

impl Profile {
    /// Returns the keys that it sets, with values as written in the file.
    pub(super) fn values(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Emergency => &[
                ("threads", "auto"),
                ("tensor_optimizations.memory_efficient", "false"),
                ("tensor_optimizations.use_tensorrt", "true"),
                ("tensor_optimizations.chunk_large_tensors", "false"),
            ],
            Self::Field => &[],
            Self::Training => &[
                ("threads", "1"),
                ("precision", "fp32"),
                ("tensor_optimizations.memory_efficient", "true"),
                ("tensor_optimizations.mixed_precision", "false"),
                ("tensor_optimizations.use_tensorrt", "false"),
                ("tensor_optimizations.chunk_large_tensors", "true"),
                ("tensor_optimizations.chunk_size", "512"),
            ],
        }
    }
}

words!(Profile, "profile", { Emergency => "emergency", Field => "field", Training => "training" });
