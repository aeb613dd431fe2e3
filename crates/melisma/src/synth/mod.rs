//! Scores and generated music to sound, all voices at once.

mod event;
mod score;

pub use event::{Action, Event, Parameter};
pub use score::{Bend, Control, Instrument, MAX_NOTES, MAX_SECONDS, Note, SCHEMA, Score};
