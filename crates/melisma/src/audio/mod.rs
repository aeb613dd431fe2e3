//! Audio files: reading and writing.

mod check;
mod clip;
mod decode;
mod edit;
mod file;
pub mod flac;
mod resample;
mod source;
pub mod wav;

pub use clip::Clip;
pub use source::{Element, Facts, Reads, Source};
