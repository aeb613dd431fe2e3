//! Melisma: a tensor engine for audio AI.
//!
//! [`runtime`] is what every room stands on: configuration, memory, precision, trace and output files.
//! [`audio`] reads and writes sound, [`snac`] turns codec tokens into sound and back, [`mel`] makes spectrograms,
//! [`dataset`] turns folders of sound into training tensors, [`mod@pack`] compresses weights without loss,
//! [`checkpoint`] reads them, [`mod@optimize`] finds the best engine for a model, [`synth`] plays scores, and
//! [`mod@bench`] measures the rooms.
#![forbid(unsafe_code)]

pub mod audio;
pub mod bench;
pub mod checkpoint;
pub mod dataset;
pub mod mel;
pub mod optimize;
pub mod pack;
pub mod runtime;
pub mod snac;
pub mod synth;

pub use melisma_kernels::{Error, Kind, Result};
