//! Melisma: a tensor engine for audio AI.
#![forbid(unsafe_code)]

pub mod audio;

pub use melisma_kernels::{Error, Kind, Result};
