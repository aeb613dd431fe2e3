//! Melisma: a tensor engine for audio AI.
//!
//! | room | what it does |
//! |---|---|
//! | [`runtime`] | configuration, memory, precision, trace and output files: what every room stands on |
//! | [`mod@format`] | arrays, weights and pictures in files |
//! | [`audio`] | reads, writes and resamples audio |
//! | [`snac`] | codec tokens to audio and back |
//! | [`synth`] | scores to audio |
//! | [`mel`], [`dataset`] | spectrograms of files, and of whole folders as training tensors |
//! | [`mod@pack`] | weights compressed without loss |
//! | [`tensor`] | tools for single tensors |
//! | [`onnx`], [`engine`], [`mod@optimize`] | models, what runs them, and the best engine for a model |
#![forbid(unsafe_code)]

pub mod audio;
pub mod dataset;
pub mod engine;
pub mod format;
#[cfg(test)]
mod golden;
pub mod mel;
pub mod onnx;
pub mod optimize;
pub mod pack;
pub mod runtime;
pub mod snac;
pub mod synth;
pub mod tensor;

pub use melisma_kernels::{
    Budget, Buffer, Cpu, DType, Device, Element, Error, I24, Isa, Kind, Level, Pool, Queue, Remedy, Reservation,
    Result, Space, Tensor, Usage, View, ViewMut, convert, random,
};
