//! Events: what happens at which sample.

use super::instrument::Instrument;
use super::parameter::Parameter;
use crate::{Error, Result};

/// Channels, as MIDI has them.
pub(super) const N_CHANNELS: usize = 16;
/// The name of no note: [`check`] refuses events with it.
pub(super) const NO_NOTE: u64 = u64::MAX;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
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
    Err(Error::invalid(format!("synth: {name} is {value}; {low} to {high} is allowed")))
}

pub(super) fn check_rate(sample_rate: u32) -> Result<()> {
    check_range("sample_rate", sample_rate as usize, [8_000, 192_000])
}

/// Checks every figure of an action.
pub(super) fn check(action: &Action) -> Result<()> {
    let within = |name: &str, value: f32, [low, high]: [f32; 2]| {
        if value >= low && value <= high {
            return Ok(());
        }
        Err(Error::invalid(format!("synth: {name} is {value}; {low} to {high} is allowed")))
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
        Action::Set { parameter, value } => within(parameter.name(), value, parameter.range()),
    }
}

fn check_name(note: u64) -> Result<()> {
    if note == NO_NOTE {
        return Err(Error::invalid(format!("synth: {note} cannot name a note")));
    }
    Ok(())
}
