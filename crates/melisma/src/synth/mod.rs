//! Scores and generated music to sound, all voices at once.

mod composer;
pub mod effect;
mod event;
mod loudness;
mod midi;
mod score;

pub use composer::{Composer, Mode, STYLES, Style, compose, seed};
pub use event::{Action, Event, Parameter};
pub use loudness::Meter;
pub use score::{Bend, Control, Instrument, MAX_NOTES, MAX_SECONDS, Note, SCHEMA, Score};
