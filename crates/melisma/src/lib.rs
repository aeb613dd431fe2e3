//! Melisma: a tensor engine for audio AI.
//!
//! [`runtime`] is what every room stands on: configuration, memory, precision, trace and output files.
//! [`mod@pack`] compresses weights without loss,
//! [`audio`] reads and writes sound, [`snac`] turns codec tokens into sound and back, [`mod@bench`] measures the rooms.
#![forbid(unsafe_code)]

pub mod audio;
pub mod bench;
pub mod checkpoint;
pub mod pack;
pub mod runtime;
pub mod snac;

pub use melisma_kernels::{Error, Kind, Result};
