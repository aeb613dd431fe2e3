//! Melisma: a tensor engine for audio AI.
//!
//! [`runtime`] is what every room stands on: configuration, memory, precision, trace and output files.
//! [`mod@bench`] measures the rooms and compares records.
#![forbid(unsafe_code)]

pub mod audio;
pub mod snac;

pub use melisma_kernels::{Error, Kind, Result};

pub mod bench;
pub mod runtime;
