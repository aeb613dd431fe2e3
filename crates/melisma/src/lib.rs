//! Melisma: a tensor engine for audio AI.
//!
//! [`runtime`] is what every room stands on: configuration, memory, precision, trace and output files.
//! [`audio`] reads and writes sound, [`snac`] turns codec tokens into sound and back, [`mod@bench`] measures the rooms.
//! [`mel`] makes spectrograms of it, and [`dataset`] turns folders of it into training tensors.
#![forbid(unsafe_code)]

pub mod audio;
pub mod bench;
pub mod dataset;
pub mod mel;
pub mod runtime;
pub mod snac;

pub use melisma_kernels::{Error, Kind, Result};
