//! SNAC: a neural audio codec whose tokens language models generate. Turns codes on several time scales into sound, and
//! back.
//!
//! Siuzdak, Grötschla, Lanzendörfer 2024, "SNAC: Multi-Scale Neural Audio Codec". Shapes are written with C channels
//! and T time steps. In the 24 kHz model a *latent* is 512 samples. A *frame*, the smallest unit with whole codes on
//! every level, is four latents with 1 + 2 + 4 codes on its three levels.
//!
//! [`Decoder`] and [`Encoder`] take whole clips and streams on a device. [`Engine`] and [`EncodeEngine`] are what they run
//! on, many streams in a batch. [`mod@reference`] is the paper in plain loops, which define what the engines must compute.
//!
//! ```
//! use melisma::snac::Decoder;
//!
//! let mut decoder = Decoder::open("builtin:mini24")?;
//! let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6])?;
//! assert_eq!(decoder.decode(&codes)?.len(), 2048);
//! # Ok::<(), melisma::Error>(())
//! ```

mod builtin;
mod codes;
mod config;
mod decoder;
mod encoder;
mod engine;
mod model;
pub mod noise;
mod player;
pub mod populate;
mod progress;
mod recorder;
pub mod reference;
mod source;
pub mod tokens;
mod weights;

#[cfg(feature = "builtin")]
pub use builtin::mini24_weights;
pub use builtin::{MINI24, SOLO24, builtin_weights};
pub(crate) use codes::slot_order;
pub use codes::{Codes, Frames};
#[doc(hidden)]
pub use codes::{Slot, slots};
pub use config::Config;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use engine::{EncodeEngine, Encoded, Engine, EngineOptions, Piece, Samples, StreamId, Ticket};
pub use melisma_kernels::layer::step::Rounding;
pub use model::Model;
pub use noise::Noise;
pub use player::{DecodeOptions, Player};
pub use progress::Progress;
pub use recorder::Recorder;
