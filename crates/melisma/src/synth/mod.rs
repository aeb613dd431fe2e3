//! Scores and generated music to sound, all voices at once.

mod engine;
mod event;
mod patch;
mod score;

pub use engine::{Buses, Engine, EngineConfig, Path, Stem};
pub use event::{Action, Event, Parameter};
pub use score::{Bend, Instrument, Note, Score};
