//! Sound in files: reading and writing.

mod clip;
mod decode;
mod file;
mod resample;
mod source;
pub mod wav;

pub use clip::Clip;
pub use source::{Element, Facts, Reads, Source};
