//! Audio files: reading and writing.

#[cfg(feature = "codecs")]
mod check;
mod clip;
#[cfg_attr(not(feature = "codecs"), path = "refuse.rs")]
mod decode;
#[cfg(feature = "codecs")]
mod edit;
mod file;
pub mod flac;
mod resample;
mod source;
pub mod wav;

pub use clip::Clip;
pub use source::{Element, Facts, Reads, Source};
