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
//! | [`tensor`], [`mod@convert`] | tools for single tensors; element types to and from f32 |
//! | [`onnx`], [`engine`], [`mod@optimize`] | models, what runs them, and the best engine for a model |
//! | [`mod@format`] | arrays, weights and pictures in files |
//! | [`config`] | settings, profiles, precision and policy |
//! | [`runtime`] | the machine, its devices and their memory |
//! | [`mod@random`] | random numbers that are the same on every machine |
//! | [`trace`], [`output`], [`text`] | where the time goes; files that are whole or absent; figures for people |
//!
//! A [`Device`] is a CPU or a GPU, and a [`Queue`] runs work on it in order. A [`Budget`] counts memory and refuses before
//! an allocation would pass its limit. Every [`Error`] has a [`Kind`] to branch on and a message for people. Six short
//! programs in `crates/melisma/examples` show whole tasks.
//!
//! # Features
//!
//! `onnx` brings the rooms `onnx`, `engine` and `optimize`, and `codecs` the decoders of compressed audio; both are on by
//! default. CUDA libraries are loaded at run time: `cuda-13` (the default) or `cuda-12` says which interface to expect.
//! One of the two must be on, also for programs that use the CPU only.
//!
//! # Codec tokens to audio
//!
//! ```
//! use melisma::snac::{Codes, Model, Noise};
//!
//! let model = Model::mini24()?;
//! let codes = Codes::from_frames(model.config(), &[0, 1, 2, 3, 4, 5, 6])?;
//! assert_eq!(model.decode(&codes, &Noise::Off).len(), 2048);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! [`snac::Model::decode`] is the plain reference. The fast path is [`snac::Player`], one stream on a device, or
//! [`snac::Engine`], many streams in a batch. [`snac::Model::open`] takes `"builtin:mini24"` or the folder of a model.
//!
//! # Notes to audio
//!
//! ```
//! use melisma::synth::{EngineConfig, Melody, Phrase, PhraseRenderer};
//!
//! let melody = vec![Melody { onset: 0.0, duration: 0.5, key: 69, velocity: 0.8 }];
//! let phrase = Phrase { seconds: 1.0, melody, ..Phrase::default() };
//! let mut renderer = PhraseRenderer::new(EngineConfig::default(), 1.0)?;
//! let sound = renderer.render_phrase(&phrase)?;
//! assert_eq!(sound.left.len(), 48_000);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # Audio to spectrograms
//!
//! ```
//! use melisma::mel::{Config, Transform};
//! use melisma::{Budget, Device};
//!
//! let (device, budget) = (Device::cpu()?, Budget::unlimited());
//! let queue = device.queue(&budget)?;
//! let transform = Transform::new(&device, &budget, Config::preset("whisper-80")?)?;
//! assert_eq!(transform.run(&queue, &[0.1; 16_000])?.shape, [80, 100]);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # Audio files, and datasets of them
//!
//! ```
//! use std::time::Duration;
//!
//! use melisma::audio::{Clip, Source, wav};
//! use melisma::dataset::{Counters, Inputs, Options, Plan, Scan, Tail};
//! use melisma::mel::Config;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("second.wav");
//! let clip = Clip::mono(16_000, vec![0.1; 16_000]);
//! std::fs::write(&path, wav::write(&clip, wav::SampleFormat::S16)?).unwrap();
//! assert_eq!(Source::open(&path, 8_000)?.facts().n_samples, 8_000);
//!
//! let half = Duration::from_millis(500);
//! let options = Options::new(Config::preset("whisper-80")?, half, half, Tail::Pad)?;
//! let inputs = Inputs::find(&[folder.path().to_owned()])?;
//! // All files; one thread reads their headers.
//! let scan = Scan { threads: 1, counters: &Counters::default() };
//! let plan = Plan::new(options.into(), &inputs, 0..inputs.files.len(), scan)?;
//! assert_eq!(plan.rows.len(), 2);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # Weights without waste
//!
//! ```
//! use melisma::Budget;
//! use melisma::pack::{self, Array};
//!
//! let budget = Budget::limited(64 << 20);
//! let weights: Vec<f32> = (0..65_536).map(|n| (n as f32).sin()).collect();
//! let packed = pack::compress(&Array::new(&weights, &[256, 256])?, &budget)?;
//! assert!(packed.len() < 4 * weights.len());
//! assert_eq!(pack::decompress(&packed, &budget)?.to_vec::<f32>()?, weights);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # Tensors under a memory limit
//!
//! ```
//! use melisma::config::Config;
//! use melisma::tensor::{Tensor, TensorOptimizer};
//!
//! let optimizer = TensorOptimizer::new(&Config::load_with_profile("training")?)?;
//! let x = Tensor::from_slice(optimizer.memory().budget(), &[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let y = optimizer.mixed_precision(|scope| scope.matmul(&x, &x))?;
//! assert_eq!(y.to_vec::<f32>(optimizer.queue())?, [7.0, 10.0, 15.0, 22.0]);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! # ONNX models
//!
#![cfg_attr(feature = "onnx", doc = "```")]
#![cfg_attr(not(feature = "onnx"), doc = "```ignore")]
//! use melisma::engine::{Engine, Options, rten};
//! use melisma::format::{DType, Value};
//! use melisma::onnx::{Dim, Graph, Model, Node, Opset, ValueInfo};
//! use melisma::optimize::search::{Accuracy, compare};
//!
//! let port = |name| ValueInfo::tensor(name, DType::F32.code(), &[Dim::Open]);
//! let graph = Graph {
//!     name: "rectifier".to_owned(),
//!     nodes: vec![Node::new("Relu", &["x"], &["y"])],
//!     inputs: vec![port("x")],
//!     outputs: vec![port("y")],
//!     ..Graph::default()
//! };
//! let opsets = vec![Opset { domain: String::new(), version: 17 }];
//! let model = Model { ir_version: 8, opsets, graph, ..Model::default() }.checked()?;
//! let mut engine = rten::build(&model, &Options::default())?;
//! let outputs = engine.run(&[Value::from_slice(&[-1.0f32, 2.0], &[2])?])?;
//! let expected = [Value::from_slice(&[0.0f32, 2.0], &[2])?];
//! assert_eq!(compare(&outputs, &expected)?, Accuracy::EXACT);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! `onnx::Model::open` reads a model from a file. `engine::Ports::arrange` puts named values in the order of the
//! inputs; `Engine::ports` gives the ports of an engine.
//!
//! # Settings, devices and memory
//!
//! ```
//! use melisma::config::Config;
//! use melisma::runtime::{MemoryTracker, device, memory};
//!
//! let config = Config::load_with_profile("field")?;
//! let device = device::select(config.device.value, config.threads.value)?;
//! let tracker = MemoryTracker::new(memory::budget(config.memory_limit.value, &device));
//! let queue = tracker.track("queue", || device.queue(tracker.budget()))?;
//! println!("{}\n{}", queue.device(), tracker.summary());
//! # Ok::<(), melisma::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod audio;
pub mod config;
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
pub mod output;
pub mod pack;
pub mod runtime;
pub mod snac;
pub mod synth;
pub mod tensor;
pub mod text;
pub mod trace;

pub use half::{bf16, f16};
pub use melisma_kernels::memory::{CudaView, CudaViewMut};
pub use melisma_kernels::queue::{CpuQueue, CudaQueue};
pub use melisma_kernels::{
    Budget, Buffer, Cpu, DType, Device, Element, Error, I24, Isa, Kind, Level, Pool, Queue, Remedy, Reservation,
    Result, Space, Tensor, Usage, View, ViewMut, Watch, convert, random,
};
