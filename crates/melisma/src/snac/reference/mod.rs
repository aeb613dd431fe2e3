//! The codec as the paper draws it: one file for each box, plain loops that define what the engines must compute.
//!
//! It is slow, and runs on the CPU alone. Use [`Decoder`](super::Decoder) and [`Encoder`](super::Encoder) for work;
//! use this to check them.
//!
//! ```
//! use melisma::snac::{Codes, Decoder, Noise, reference};
//!
//! let mut decoder = Decoder::open("builtin:mini24")?;
//! let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6])?;
//! let expected = reference::decode(decoder.model(), &codes, &Noise::default());
//! let far = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-4;
//! assert!(!decoder.decode(&codes)?.iter().zip(&expected).any(far));
//! # Ok::<(), melisma::Error>(())
//! ```

pub(super) mod attention;
mod codec;
pub(super) mod conv;
mod conv_transpose;
pub(super) mod decoder;
pub(super) mod encoder;
mod layer;
mod plane;
pub(super) mod quantizer;
pub(super) mod residual;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod seam;
mod stream;

pub use codec::{decode, encode};
#[doc(hidden)]
pub use codec::{decoder, encoder, latents, quantizer};
#[doc(hidden)]
pub use decoder::{Decoder, State as DecoderState};
#[doc(hidden)]
pub use encoder::{Encoder, State as EncoderState};
#[doc(hidden)]
pub use layer::Flow;
#[doc(hidden)]
pub use plane::Plane;
#[doc(hidden)]
pub use quantizer::{Choice, Quantizer};
pub use stream::Stream;
