//! A piece of music, independent of how it sounds.
//!
//! ```
//! use melisma::synth::Score;
//! let text = br#"{ "tempo": 120, "notes": [{ "instrument": "pad", "start": 0, "duration": 2, "key": 57, "velocity": 0.5 }] }"#;
//! let score = Score::from_json(text)?;
//! assert_eq!(score.events(48_000).len(), 2);
//! # Ok::<(), melisma::Error>(())
//! ```

mod check;
mod events;
mod field;
mod json;

use serde::{Deserialize, Serialize};

pub use check::{MAX_NOTES, MAX_SECONDS};
pub use json::SCHEMA;

use super::instrument::Instrument;
use super::parameter::Parameter;

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
    #[serde(deserialize_with = "field::key")]
    pub key: u8,
    /// Loudness, 0 to 1.
    pub velocity: f32,
    /// Place, -1 = left to 1 = right.
    #[serde(default)]
    pub pan: f32,
    /// The channel whose bends it follows, 0 to 15.
    #[serde(default, deserialize_with = "field::channel")]
    pub channel: u8,
}

impl Note {
    /// Creates a note of `instrument` in the middle, at three quarters of its loudness.
    pub fn new(instrument: Instrument, start: f64, duration: f64, key: u8) -> Self {
        Self { instrument, start, duration, key, velocity: 0.75, pan: 0.0, channel: 0 }
    }
}

/// A change of pitch of all notes of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bend {
    /// Seconds from the beginning.
    pub at: f64,
    /// The channel, 0 to 15.
    #[serde(deserialize_with = "field::channel")]
    pub channel: u8,
    /// By how many semitones, -24 to 24.
    pub semitones: f32,
}

/// A move of a control.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Seconds from the beginning.
    pub at: f64,
    /// Which control.
    pub parameter: Parameter,
    /// To what, within the parameter's range.
    pub value: f32,
}

/// A piece of music.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Beats a minute, 1 to 1000, for readers and MIDI files: times are in seconds.
    pub tempo: f64,
    /// Notes, in order of their start.
    pub notes: Vec<Note>,
    /// Bends, in order of their time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bends: Vec<Bend>,
    /// Moves of controls, in order of their time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
}

impl Default for Score {
    /// Creates an empty piece at 120 beats a minute.
    fn default() -> Self {
        Self { tempo: 120.0, notes: Vec::new(), bends: Vec::new(), controls: Vec::new() }
    }
}

impl Score {
    /// Returns the bytes of memory that its lists hold.
    pub fn bytes(&self) -> u64 {
        (size_of_val(&*self.notes) + size_of_val(&*self.bends) + size_of_val(&*self.controls)) as u64
    }

    /// Returns when the last note is released, in seconds.
    pub fn seconds(&self) -> f64 {
        self.notes.iter().map(|note| note.start + note.duration).fold(0.0, f64::max)
    }

    /// Puts notes, bends and controls in the order of their times. Simultaneous notes are ordered by instrument, channel and key, so
    /// that a piece has the same order, and sounds the same, wherever it was read from; other things keep their order.
    pub fn sort(&mut self) {
        self.notes.sort_by(compare);
        self.bends.sort_by(|a, b| a.at.total_cmp(&b.at));
        self.controls.sort_by(|a, b| a.at.total_cmp(&b.at));
    }

    /// Returns the place that [`Score::sort`] gives each note.
    pub(super) fn places(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.notes.len() as u32).collect();
        order.sort_by(|&a, &b| compare(&self.notes[a as usize], &self.notes[b as usize]));
        let mut places = vec![0; order.len()];
        (0..).zip(order).for_each(|(place, note)| places[note as usize] = place);
        places
    }
}

fn compare(a: &Note, b: &Note) -> std::cmp::Ordering {
    let rank = |note: &Note| (note.instrument as u8, note.channel, note.key);
    a.start.total_cmp(&b.start).then_with(|| rank(a).cmp(&rank(b)))
}

#[cfg(test)]
mod tests;
