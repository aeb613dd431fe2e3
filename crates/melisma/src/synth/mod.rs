//! Scores and generated music to audio, all voices at once.
//!
//! | to render | use |
//! |---|---|
//! | a [`Score`] from beginning to end | [`render`], or block by block [`Performance`] |
//! | phrases, one after the other | [`PhraseRenderer`] |
//! | notes that arrive live | [`Stream`] |
//! | many clips in batches | [`BulkRenderer`] |
//! | single notes, a row each | [`voices`] |
//! | generated music without end | [`Endless`] |
//! | instruments or tracks apart | [`Performance::with_parts`] |
//! | training sets of clips with labels | [`Clips`] |
//! | a MIDI file with a SoundFont | [`Sequence`], [`SoundFont`] and [`Performance::sampled`] |
//!
//! A score, from notes to samples:
//!
//! ```
//! use melisma::synth::{BusConfig, Instrument, Length, Note, Score, Setup, render};
//!
//! let notes = vec![Note::new(Instrument::Bass, 0.0, 0.9, 45), Note::new(Instrument::Lead, 0.5, 0.4, 72)];
//! let score = Score { notes, ..Score::default() };
//!
//! let setup = Setup::new(BusConfig::new(48_000)).with_length(Length::Samples(48_000));
//! let clip = render(&score, setup)?;
//! assert_eq!((clip.n_channels, clip.n_frames()), (2, 48_000));
//! assert!(clip.samples.iter().any(|sample| sample.abs() > 0.01));
//! # Ok::<(), melisma::Error>(())
//! ```

mod bulk;
mod bus;
mod capture;
mod clip;
mod composer;
mod control;
mod cost;
mod dry;
pub mod effect;
mod endless;
mod engine;
mod engine_config;
mod event;
mod event_queue;
mod instrument;
mod length;
mod level;
mod midi;
mod note;
mod parameter;
mod part;
#[doc(hidden)]
pub mod patch;
mod performance;
mod phrase;
mod recording;
mod render;
mod score;
mod setup;
mod solo;
mod soundfont;
mod stream;
mod take;

/// Voices as the kernels compute them: what [`BulkRenderer::start_notes`] takes and [`patch::voice`] makes.
#[doc(hidden)]
pub mod voice {
    pub use melisma_kernels::signal::voice::{
        Control, Controls, Drum, Envelope, Filter, Noise, Note, Partials, Segment, Source, Tone, Voice,
    };
}

pub use bulk::{BulkConfig, BulkRenderer, Ticket};
pub use bus::{Bus, BusConfig};
pub use capture::Capture;
pub use clip::{Clip, Clips, Total as ClipTotal};
#[doc(hidden)]
pub use composer::seed;
pub use composer::{Composer, Mode, STYLES, Style, Variation, compose};
pub use cost::{Cost, DeviceChoice, choose_device};
pub use endless::Endless;
pub use engine::{Buses, Engine, EngineConfig, Stem};
pub use event::{Action, Event};
pub use instrument::Instrument;
pub use length::Length;
#[doc(hidden)]
pub use level::MAX_GAIN_DB;
pub use level::{Level, balance};
pub use note::PlacedNote;
pub use parameter::Parameter;
pub use part::Parts;
pub use performance::{Block, Performance};
pub use phrase::{Chord, Kick, Melody, Phrase, PhraseRenderer, Sound, Swell};
#[doc(hidden)]
pub use recording::voice_seconds;
pub use recording::{Recording, record};
pub use render::{render, render_in};
pub use score::{Bend, Control, MAX_SECONDS, Note, Score};
#[doc(hidden)]
pub use score::{MAX_NOTES, SCHEMA};
pub use setup::Setup;
pub use solo::{Solo, voices};
#[doc(hidden)]
pub use soundfont::synthetic as synthetic_soundfont;
pub use soundfont::{Sequence, SoundFont};
pub use stream::{Played, Remote, Stream, render_all};
pub use take::Take;
