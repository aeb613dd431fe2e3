//! A score as events for an engine.

use super::{Note, Score};
use crate::synth::event::{Action, Event};
use crate::synth::note::PlacedNote;

impl Note {
    /// Returns the note at the nearest samples; it lasts for one sample at least.
    pub(in crate::synth) fn placed(&self, sample_rate: u32) -> PlacedNote {
        let Self { instrument, channel, key, velocity, pan, .. } = *self;
        let start = sample(self.start, sample_rate);
        let release = sample(self.start + self.duration, sample_rate).max(start.saturating_add(1));
        PlacedNote { instrument, channel, key, velocity, pan, start, release }
    }
}

/// Returns the sample nearest to a time.
fn sample(seconds: f64, sample_rate: u32) -> u64 {
    (seconds * f64::from(sample_rate)).round() as u64
}

impl Score {
    /// Returns everything that happens, in order: at one sample first controls, then bends, releases and starts, each
    /// as in the score. Times are rounded to the nearest sample; a note's name is its place in [`Score::notes`], and
    /// it lasts for one sample at least.
    pub fn events(&self, sample_rate: u32) -> Vec<Event> {
        self.events_named_from(0, sample_rate)
    }

    /// Works like [`Score::events`], for a part of a longer piece: its first note is called `first`.
    pub(in crate::synth) fn events_named_from(&self, first: u64, sample_rate: u32) -> Vec<Event> {
        let mut events = Vec::with_capacity(self.controls.len() + self.bends.len() + 2 * self.notes.len());
        events.extend(self.controls.iter().map(|control| Event {
            at: sample(control.at, sample_rate),
            action: Action::Set { parameter: control.parameter, value: control.value },
        }));
        events.extend(self.bends.iter().map(|bend| Event {
            at: sample(bend.at, sample_rate),
            action: Action::Bend { channel: bend.channel, semitones: bend.semitones },
        }));
        for (name, note) in (first..).zip(&self.notes) {
            events.extend(note.placed(sample_rate).events(name));
        }
        events.sort_by_key(|event| (event.at, rank(&event.action)));
        events
    }
}

/// Releases come before starts, so that a key that is struck again at once finds its voice free.
fn rank(action: &Action) -> u8 {
    match action {
        Action::Set { .. } => 0,
        Action::Bend { .. } => 1,
        Action::Release { .. } => 2,
        Action::Start { .. } => 3,
    }
}
