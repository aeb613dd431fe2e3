//! Profiles: named sets of values that lie above the defaults and below everything the user writes.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// What matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The fastest: TensorRT or else the fastest engine, no chunking, all cores. A memory limit that would need
    /// chunking is refused.
    Emergency,
    /// Balanced: chunks and precision adapt to the free memory.
    Field,
    /// Least power and memory: FP32, no TensorRT, always chunked and in place, one thread.
    Training,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Emergency, Self::Field, Self::Training];

    /// The keys it sets, each with the value as one would write it.
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

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emergency => "emergency",
            Self::Field => "field",
            Self::Training => "training",
        })
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|profile| profile.to_string() == text);
        found.ok_or_else(|| {
            Error::invalid(format!("`{text}` is not a profile")).with_hint("use emergency, field or training")
        })
    }
}
