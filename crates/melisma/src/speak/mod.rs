//! Text to speech: a language model whose tokens are frames of a codec.
//!
//! A [`Speaker`] is a language model with its tokenizer, and a codec of [`snac`](crate::snac). A text is cut at its
//! sentences into a [`Script`] of prompts; a [`Speech`] draws their tokens one after the other, and every whole frame
//! goes into one stream of the codec. The [`Format`] says what a prompt is made of and which tokens are codes.
//!
//! The same text, voice, settings and seed give the same tokens, whatever else is spoken in the same batch: other texts
//! of a list, other pieces of the same text, or those of other listeners.

use crate::llama;

mod ahead;
mod config;
mod cycle;
mod ensemble;
mod estimate;
mod format;
mod identity;
mod list;
mod normalise;
mod note;
mod run;
mod script;
mod sentence;
mod speaker;
mod speech;
#[cfg(any(test, feature = "bench"))]
pub mod synthetic;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use ahead::Pace;
pub use format::{Draw, FILE_NAME, Format, Settings};
pub use normalise::{Normalised, Passages, normalise};
pub use note::Note;
pub use script::{MAX_TEXT, PIECE_CHARS, Script};
pub use speaker::Speaker;
pub use speech::{Delivery, Piece, Speech};

/// What the fronts share: models of their own settings, lists, many listeners, and the parts of a speech.
#[doc(hidden)]
pub use {
    config::{Config, Number},
    cycle::CycleDetector,
    ensemble::{Ensemble, EnsembleOptions, Member, Step, Utterance},
    estimate::Estimate,
    list::{Corpus, Event, Job, Line, List, Spoken},
    sentence::cut,
    speaker::{Opening, Progress, SpokenText},
    tokenizer::Tokenizer,
};

/// The name of the voice that is part of this library, where the feature `voice` is on.
pub const BUILTIN: &str = llama::BUILTIN;

/// Returns whether [`BUILTIN`] is part of this build.
pub fn has_builtin() -> bool {
    cfg!(feature = "voice")
}
