//! Text for people: sizes, durations, speeds, counts, tables, and words for choices; and bytes as
//! text.

pub mod base64;
mod count;
pub mod duration;
pub mod html;
pub mod size;
mod speed;
pub mod table;
mod unit;
pub(crate) mod word;

pub use count::count;
pub use speed::realtime;
pub use unit::spaced;
