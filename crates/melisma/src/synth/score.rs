//! A piece of music, independent of how it sounds.

use serde::{Deserialize, Serialize};

/// A voice of the synthesiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instrument {
    /// Slow chords: sine and saw, filtered, with motion.
    Pad,
    /// Melody.
    Lead,
    /// A plucked string.
    Pluck,
    /// The lowest part.
    Bass,
    /// A drum: a falling sine.
    Kick,
    /// A cymbal: filtered noise.
    Hat,
    /// A wave of filtered noise.
    Swell,
}

impl Instrument {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [Self::Pad, Self::Lead, Self::Pluck, Self::Bass, Self::Kick, Self::Hat, Self::Swell];
}

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// What plays it.
    pub instrument: Instrument,
    /// Seconds from the beginning.
    pub start: f64,
    /// Seconds until it is released.
    pub duration: f64,
    /// MIDI key, 0 to 127, 60 = middle C.
    pub key: u8,
    /// Loudness, 0 to 1.
    pub velocity: f32,
    /// Place, -1 = left to 1 = right.
    #[serde(default)]
    pub pan: f32,
    /// The channel whose bends it follows, 0 to 15.
    #[serde(default)]
    pub channel: u8,
}

/// A change of pitch of all notes of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bend {
    /// Seconds from the beginning.
    pub at: f64,
    /// The channel, 0 to 15.
    pub channel: u8,
    /// By how many semitones, -24 to 24.
    pub semitones: f32,
}

/// A piece of music.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Beats a minute, for readers and MIDI files: times are in seconds.
    pub tempo: f64,
    /// Notes, in order of their start.
    pub notes: Vec<Note>,
    /// Bends, in order of their time.
    #[serde(default)]
    pub bends: Vec<Bend>,
}
