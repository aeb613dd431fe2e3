//! Figures and choices as people read and write them: sizes, durations, counts, tables, words.

mod count;
pub mod duration;
pub mod size;
pub mod table;
pub(crate) mod word;

pub use count::count;
