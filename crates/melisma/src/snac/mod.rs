//! SNAC: a neural audio codec whose tokens language models generate. Turns codes on several time scales into sound, and
//! back.
//!
//! Siuzdak, Grötschla, Lanzendörfer 2024, "SNAC: Multi-Scale Neural Audio Codec". Shapes are written with C channels
//! and T time steps. In the 24 kHz model a *latent* is 512 samples. A *frame*, the smallest unit with whole codes on
//! every level, is four latents with 1 + 2 + 4 codes on its three levels.
//!
//! [`Engine`] decodes on a device, many streams in a batch; [`Player`] is one stream of it. [`EncodeEngine`] encodes, in
//! the same way. [`Model`] and [`Stream`] are the reference: one file for each box of the paper, plain loops that define what the engine must compute.
//!
//! ```
//! use melisma::snac::{Codes, Model, Noise};
//! let model = Model::mini24()?;
//! let codes = Codes::from_frames(model.config(), &[0, 1, 2, 3, 4, 5, 6])?;
//! assert_eq!(model.decode(&codes, &Noise::Off).len(), 2048);
//! # Ok::<(), melisma::Error>(())
//! ```

mod attention;
mod codes;
mod config;
mod conv;
mod conv_transpose;
pub mod decoder;
pub mod encoder;
mod engine;
mod layer;
mod model;
pub mod noise;
mod plane;
mod player;
pub mod populate;
mod quantizer;
mod recorder;
mod residual;
pub mod seam;
mod source;
mod stream;
pub mod tokens;
mod weights;

pub(crate) use codes::slot_order;
pub use codes::{Codes, Frames, Slot, slots};
pub use config::Config;
pub use engine::{EncodeEngine, Encoded, Engine, EngineOptions, Piece, Samples, StreamId, Ticket};
pub use layer::Flow;
pub use melisma_kernels::layer::step::Rounding;
pub use model::{Model, mini24_weights};
pub use noise::Noise;
pub use plane::Plane;
pub use player::{DecodeOptions, Player};
pub use quantizer::{Choice, Quantizer};
pub use recorder::Recorder;
pub use stream::{Progress, Stream};
pub use weights::Weights;
