//! Melisma: a tensor engine for audio AI.
#![forbid(unsafe_code)]

pub mod audio;
pub mod snac;

pub use melisma_kernels::{Error, Kind, Result};
