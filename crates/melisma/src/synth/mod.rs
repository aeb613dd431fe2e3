//! Scores and generated music to sound, all voices at once.

mod event;
mod score;

pub use event::{Action, Event, Parameter};
pub use score::{Bend, Instrument, Note, Score};
