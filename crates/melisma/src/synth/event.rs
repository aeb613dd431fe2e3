//! What an engine is told, and at which sample.

use serde::{Deserialize, Serialize};

use super::score::Instrument;
use crate::{Error, Result};

/// Channels, as MIDI has them.
pub(super) const N_CHANNELS: usize = 16;
/// No event names it: [`check`] refuses it.
pub(super) const NO_NOTE: u64 = u64::MAX;

/// A control that can move while music plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// Gain of everything, linear, 0 to 1.
    Gain,
    /// Cutoff of the pads' filter as a factor, 0.1 to 10.
    Brightness,
    /// Depth of the pads' slow modulation, 0 to 1.
    Motion,
    /// Share of the reverb in the output, 0 to 1.
    Reverb,
    /// Share of the delay in the output, 0 to 1.
    Delay,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gain, Self::Brightness, Self::Motion, Self::Reverb, Self::Delay];

    /// Its name in scores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gain => "gain",
            Self::Brightness => "brightness",
            Self::Motion => "motion",
            Self::Reverb => "reverb",
            Self::Delay => "delay",
        }
    }

    /// The least and the largest value.
    pub fn range(self) -> [f32; 2] {
        match self {
            Self::Brightness => [0.1, 10.0],
            Self::Gain | Self::Motion | Self::Reverb | Self::Delay => [0.0, 1.0],
        }
    }
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    /// A note begins.
    Start {
        /// Names the note until it is released.
        note: u64,
        /// What plays it.
        instrument: Instrument,
        /// The channel whose bends it follows.
        channel: u8,
        /// MIDI key, 60 = middle C.
        key: u8,
        /// Loudness, 0 to 1.
        velocity: f32,
        /// Place, -1 = left to 1 = right.
        pan: f32,
    },
    /// A note is released; it still rings for as long as its instrument does.
    Release {
        /// The name it began with.
        note: u64,
    },
    /// All notes of a channel, now and later, are shifted in pitch.
    Bend {
        /// The channel.
        channel: u8,
        /// By how many semitones.
        semitones: f32,
    },
    /// A control moves; engines smooth it over 10 ms.
    Set {
        /// Which.
        parameter: Parameter,
        /// To what.
        value: f32,
    },
}

/// Something that happens at a sample. Events of one sample act in the order in which they are given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Samples since the beginning.
    pub at: u64,
    /// What happens.
    pub action: Action,
}

pub(super) fn check_range(name: &str, value: usize, [low, high]: [usize; 2]) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("synth: {name} is {value}, outside of {low} to {high}")))
}

/// Checks every figure of an action.
pub(super) fn check(action: &Action) -> Result<()> {
    let within = |name: &str, value: f32, [low, high]: [f32; 2]| {
        if value >= low && value <= high {
            return Ok(());
        }
        Err(Error::invalid(format!("synth: {name} is {value}, outside of {low} to {high}")))
    };
    let channel_of = |channel: u8| check_range("a channel", channel.into(), [0, N_CHANNELS - 1]);
    match *action {
        Action::Start { note, channel, key, velocity, pan, .. } => {
            channel_of(channel)?;
            check_range("a key", key.into(), [0, 127])?;
            within("a velocity", velocity, [0.0, 1.0])?;
            within("a pan", pan, [-1.0, 1.0])?;
            check_name(note)
        }
        Action::Release { note } => check_name(note),
        Action::Bend { channel, semitones } => {
            channel_of(channel)?;
            within("a bend in semitones", semitones, [-48.0, 48.0])
        }
        Action::Set { parameter: Parameter::Brightness, value } => within("brightness", value, [0.1, 10.0]),
        Action::Set { value, .. } => within("a parameter", value, [0.0, 1.0]),
    }
}

fn check_name(note: u64) -> Result<()> {
    if note == NO_NOTE {
        return Err(Error::invalid(format!("synth: {note} is no name for a note")));
    }
    Ok(())
}
