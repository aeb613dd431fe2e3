//! Sound in files: reading and writing.

mod clip;
pub mod wav;

pub use clip::Clip;
