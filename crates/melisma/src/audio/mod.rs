//! Audio files: reading, writing, resampling, and how loud a recording is.

#[cfg(feature = "codecs")]
mod check;
mod clip;
#[cfg_attr(not(feature = "codecs"), path = "refuse.rs")]
mod decode;
#[cfg(feature = "codecs")]
mod edit;
mod file;
pub mod flac;
pub(crate) mod interpolate;
mod loudness;
mod resample;
mod source;
pub mod wav;

pub use clip::Clip;
pub use loudness::Meter;
pub use source::{Element, Facts, Reads, Source};
