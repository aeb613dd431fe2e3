//! Melisma is a tensor engine for audio AI: it turns codec tokens, scores, waveforms and weights into tensors and audio,
//! on a CPU or an NVIDIA GPU.
//!
//! | room | what it does |
//! |---|---|
//! | [`snac`] | codec tokens to audio and back, whole or as streams |
//! | [`synth`] | scores, phrases and live notes to audio |
//! | [`mel`] | spectrograms with the numbers of torchaudio, librosa, Whisper, Kaldi and HiFi-GAN |
//! | [`dataset`] | folders of audio to training tensors in HDF5, safetensors or npy |
//! | [`audio`] | reads, writes and resamples audio files |
//! | [`fidelity`] | how close decoded audio is to its original |
//! | [`mod@pack`] | weights compressed without loss |
//! | [`tensor`] | tools for single tensors: products, element types, weights of a file |
//! | [`onnx`], [`engine`], [`mod@optimize`] | models, what runs them, and the best engine for a model |
//! | [`mod@format`] | arrays, weights and pictures in files |
//! | [`config`] | settings, profiles, precision and policy |
//! | [`runtime`] | the machine, its devices and their memory |
//! | [`trace`] | where the time goes |
//!
//! # Codec tokens to audio
//!
//! ```
//! use melisma::snac::Decoder;
//!
//! let mut decoder = Decoder::open("builtin:mini24")?;
//! let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6])?;
//! assert_eq!(decoder.decode(&codes)?.len(), 2048);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # A folder of audio to spectrograms
//!
//! ```
//! use std::time::Duration;
//!
//! use melisma::dataset::{Inputs, Options, Request};
//! use melisma::mel::Config;
//! # use melisma::audio::{Clip, wav};
//! # let folder = tempfile::tempdir().unwrap();
//! # let (clips, train) = (folder.path().join("clips"), folder.path().join("train.h5"));
//! # std::fs::create_dir(&clips).unwrap();
//! # let clip = Clip::mono(16_000, vec![0.1; 48_000]);
//! # std::fs::write(clips.join("a.wav"), wav::encode(&clip, wav::SampleFormat::S16)?).unwrap();
//!
//! let inputs = Inputs::find(&[clips])?;
//! let segments = Options::new(Config::preset("whisper-80")?, Duration::from_secs(1))?;
//! let outcome = Request::new(&inputs, train, segments)?.build()?;
//! println!("{} rows of {} files", outcome.segments, outcome.files_ok);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! What `open` and `new` make runs on the CPU; `open_in` and `new_in` take a [`Context`], which says on which device, with
//! how many threads and in how much memory. Each room's page begins with an example, and six short programs in
//! `crates/melisma/examples` show whole tasks.
//!
//! # Errors
//!
//! Every [`Error`] has an [`ErrorKind`] to branch on, a message for people that says what and where, and [`Remedy`] values that
//! say what to do about it: [`Remedy::of`] lists them.
//!
//! # What is promised
//!
//! What these pages show. What the command line, the server, the Python package and the bench share beside it is public
//! but not shown, such as the modules `text` and `output`, and may change at any time; so may the features `front` and
//! `bench`, which are for these alone.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `builtin` | the model `builtin:mini24`, part of the program |
//! | `codecs` | the decoders and encoders of compressed audio; WAV needs none |
//! | `cuda-13`, `cuda-12` | NVIDIA GPUs; CUDA's libraries are loaded at run time, and only one of the two can be on |
//! | `onnx` | the rooms `onnx`, `engine` and `optimize` |
//! | `trace` | the collector of spans in [`trace`] |
//!
//! All but `cuda-12` are on by default. Without any, the rest runs on the CPU.
#![forbid(unsafe_code)]

pub mod audio;
pub mod config;
mod context;
pub mod dataset;
#[cfg(feature = "onnx")]
pub mod engine;
pub mod fidelity;
pub mod format;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod growth;
pub mod mel;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "onnx")]
pub mod optimize;
#[doc(hidden)]
pub mod output;
pub mod pack;
mod remedy;
pub mod runtime;
pub mod snac;
pub mod synth;
pub mod tensor;
#[doc(hidden)]
pub mod text;
pub mod trace;

pub use context::{Context, ContextBuilder};
pub use half::{bf16, f16};
pub use melisma_kernels::{Budget, DType, Device, Element, Error, ErrorKind, Queue, Result, Tensor, View, ViewMut};
#[doc(hidden)]
pub use melisma_kernels::{convert, random};
pub use output::Existing;
pub use remedy::Remedy;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
