//! Sound in files: reading and writing.

mod clip;
mod decode;
mod file;
pub mod flac;
mod resample;
mod source;
pub mod wav;

pub use clip::Clip;
pub use source::{Element, Facts, Reads, Source};
