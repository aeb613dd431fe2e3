//! A note at its samples: between a score or a phrase and a voice.

use melisma_kernels::signal::voice::Note;

use super::event::{Action, Event};
use super::instrument::Instrument;
use super::patch::{self, Pitch, Touch};

/// A note with the samples at which it starts and is released.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PlacedNote {
    /// What plays it.
    pub instrument: Instrument,
    /// The channel whose bends it follows.
    pub channel: u8,
    /// MIDI key.
    pub key: u8,
    /// 0 to 1.
    pub velocity: f32,
    /// -1 to 1.
    pub pan: f32,
    /// Its first sample.
    pub start: u64,
    /// Where it is released.
    pub release: u64,
}

impl PlacedNote {
    /// Returns its start and its release as events of the note called `name`.
    pub fn events(self, name: u64) -> [Event; 2] {
        let Self { instrument, channel, key, velocity, pan, start, release } = self;
        [
            Event { at: start, action: Action::Start { note: name, instrument, channel, key, velocity, pan } },
            Event { at: release, action: Action::Release { note: name } },
        ]
    }

    /// Returns the note called `name` as renderers of whole pieces take it, without bends.
    pub(super) fn voiced(self, name: u64, sample_rate: u32) -> Note {
        let pitch = Pitch { key: self.key, semitones: 0.0, sample_rate };
        let touch = Touch { velocity: self.velocity, pan: self.pan, seed: patch::seed(name) };
        let release = (!self.instrument.is_one_shot()).then_some(self.release);
        Note { voice: patch::voice(self.instrument, pitch, touch), mix: 0, onset: self.start, release }
    }
}
