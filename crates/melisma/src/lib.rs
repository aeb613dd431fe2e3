//! Melisma is a tensor engine for audio AI: it turns texts, codec tokens, scores, waveforms and weights into tensors and
//! audio, on a CPU or an NVIDIA GPU.
//!
//! | module | what it does |
//! |---|---|
//! | [`mod@speak`] | texts to audio by the built-in voice or a language model |
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
//! let mut decoder = Decoder::open("builtin:mini24")?; // or the folder of a SNAC model
//! let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6])?; // seven codes a frame
//! assert_eq!(decoder.decode(&codes)?.len(), 2048);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! [`Decoder::read`](snac::Decoder::read) takes a file of tokens, and [`Clip::write`](audio::Clip::write) writes WAV, FLAC,
//! MP3 or Opus.
//!
//! # A folder of audio to spectrograms
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use melisma::dataset::{Inputs, Options, Request};
//! use melisma::mel::Config;
//!
//! let inputs = Inputs::find(&["clips"])?;
//! let segments = Options::new(Config::preset("whisper-80")?, Duration::from_secs(10))?;
//! let outcome = Request::new(&inputs, "train.h5", segments)?.build()?;
//! println!("{} rows of {} files", outcome.segments, outcome.files_ok);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # Devices
//!
//! Calls without a context work on the CPU. Their twins `open_in`, `new_in`, `load_in` and `render_in` take a [`Context`],
//! which says on which device, with how many threads and in how much memory.
//!
//! ```
//! use melisma::Context;
//! use melisma::snac::Decoder;
//!
//! let context = Context::auto()?; // a GPU if there is one, otherwise the CPU
//! let decoder = Decoder::open_in(&context, "builtin:mini24")?;
//! println!("{} Hz on {}", decoder.sample_rate(), context.device());
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! The engines beneath, such as [`snac::Engine`] for many streams in one batch, take a queue and a budget. Six short
//! programs in this crate's folder `examples` show whole tasks. Melisma is tested on x86-64 Linux and compiles for 64-bit
//! Arm Linux, where its CPU kernels use NEON and were run in an emulator only.
//!
//! # Errors
//!
//! Every [`Error`] has an [`ErrorKind`] to branch on, a message for people that says what and where, and [`Remedy`] values that
//! say what to do about it: [`Remedy::of`] lists them, [`Error::hint`] gives them as one line.
//!
//! ```
//! use melisma::snac::Decoder;
//! use melisma::{ErrorKind, Remedy};
//!
//! let error = Decoder::open("missing/model").unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::Io);
//! eprintln!("{error}");
//! Remedy::of(&error).iter().for_each(|remedy| eprintln!("  {remedy}"));
//! ```
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
//! | `onnx` | the modules `onnx`, `engine` and `optimize` |
//! | `speak` | text to speech, as the command line has it |
//! | `trace` | the collector of spans in [`trace`] |
//! | `voice` | the voice `builtin:voice` and its codec `builtin:solo24`, part of the program |
//!
//! All but `cuda-12` are on by default. Without any, the rest runs on the CPU.
#![forbid(unsafe_code)]

#[macro_use]
mod setter;

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
#[doc(hidden)]
pub mod llama;
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
#[cfg(feature = "speak")]
pub mod speak;
pub mod synth;
pub mod tensor;
#[doc(hidden)]
pub mod text;
pub mod trace;

pub use context::{Context, ContextBuilder};
pub use half::{bf16, f16};
pub use melisma_kernels::{Budget, DType, Device, Element, Error, ErrorKind, Queue, Result, Tensor, View, ViewMut};
#[doc(hidden)]
pub use melisma_kernels::{convert, lock, random};
pub use output::Existing;
pub use remedy::Remedy;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
