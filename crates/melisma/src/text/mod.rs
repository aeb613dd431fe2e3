//! Text for people: sizes, durations, counts, tables, and words for choices.

mod count;
pub mod duration;
pub mod size;
pub mod table;
pub(crate) mod word;

pub use count::count;
