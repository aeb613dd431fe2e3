//! A score as what an engine is told.

use super::Score;
use crate::synth::event::{Action, Event};

impl Score {
    /// Everything that happens, in order: at one sample first controls, then bends, releases and starts, each as in the
    /// score. Times are rounded to the nearest sample; a note's name is its place in [`Score::notes`], and it lasts for
    /// one sample at least.
    pub fn events(&self, sample_rate: u32) -> Vec<Event> {
        let sample = |seconds: f64| (seconds * f64::from(sample_rate)).round() as u64;
        let mut events = Vec::with_capacity(self.controls.len() + self.bends.len() + 2 * self.notes.len());
        events.extend(self.controls.iter().map(|control| Event {
            at: sample(control.at),
            action: Action::Set { parameter: control.parameter, value: control.value },
        }));
        events.extend(self.bends.iter().map(|bend| Event {
            at: sample(bend.at),
            action: Action::Bend { channel: bend.channel, semitones: bend.semitones },
        }));
        for (index, note) in self.notes.iter().enumerate() {
            let (start, end) = (sample(note.start), sample(note.start + note.duration));
            let action = Action::Start {
                note: index as u64,
                instrument: note.instrument,
                channel: note.channel,
                key: note.key,
                velocity: note.velocity,
                pan: note.pan,
            };
            events.push(Event { at: start, action });
            events.push(Event { at: end.max(start + 1), action: Action::Release { note: index as u64 } });
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
