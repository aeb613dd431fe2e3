//! Audio files and pipes: reading, writing, resampling, changing the speed, and how loud a
//! recording is.
//!
//! ```no_run
//! use melisma::Existing;
//! use melisma::audio::{Clip, Source, Target};
//!
//! let clip = Clip::mono(16_000, vec![0.1; 16_000]);
//! clip.write("second.flac", Existing::Refuse)?;
//! let half = Source::open("second.flac", Target::new(8_000))?;
//! assert_eq!(half.facts().n_samples, 8_000);
//! # Ok::<(), melisma::Error>(())
//! ```

mod channel;
#[cfg(feature = "codecs")]
mod check;
mod clip;
mod clipping;
#[cfg_attr(not(feature = "codecs"), path = "refuse.rs")]
mod decode;
#[cfg(feature = "codecs")]
mod edit;
mod file;
pub mod flac;
pub(crate) mod interpolate;
mod loudness;
mod resample;
mod sinc;
mod source;
mod stream;
pub mod stretch;
pub mod wav;
mod writer;

pub use channel::Channel;
pub use clip::{Clip, Layout};
pub use loudness::Meter;
pub use resample::{resample, resample_with, resampled_len};
pub use source::{Facts, Rates, Reads, SampleType, Source, Target};
pub use stream::Stream;
pub use writer::{Format, Writer};
