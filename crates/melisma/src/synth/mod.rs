//! Scores and generated music to sound, all voices at once.

mod bulk;
mod engine;
mod event;
pub(crate) mod patch;
mod phrase;
mod score;
mod stream;

pub use bulk::{BulkConfig, BulkRenderer, Cost, Ticket, voice_seconds};
pub use engine::{Buses, Engine, EngineConfig, Path, Stem};
pub use event::{Action, Event, Parameter};
pub use phrase::{Chord, Kick, Melody, NoteEvents, Phrase, PhraseRenderer, Sound, Swell};
pub use score::{Bend, Instrument, Note, Score};
pub use stream::{Played, Remote, Stream, render_all};
