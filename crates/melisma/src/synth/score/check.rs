//! What a score may hold. Every limit is far beyond music and well within what engines and files can carry.

use super::{Bend, Control, Note, Score};
use crate::{Error, Result};

/// The most notes of a score.
pub const MAX_NOTES: usize = 1_000_000;
/// The latest time in a score, in seconds: one day.
pub const MAX_SECONDS: f64 = 86_400.0;
/// The most bends, and the most controls.
const MAX_CHANGES: usize = 4_000_000;
/// A bend's largest size, in semitones.
const MAX_BEND: f32 = 24.0;
/// Beats a minute.
const TEMPO: [f64; 2] = [1.0, 1000.0];

impl Score {
    /// Checks every value against its limits.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) that names the place, the value and the limit, of the first that is wrong.
    pub fn check(&self) -> Result<()> {
        within("tempo", self.tempo, TEMPO, "beats a minute")?;
        count("notes", self.notes.len(), MAX_NOTES)?;
        count("bends", self.bends.len(), MAX_CHANGES)?;
        count("controls", self.controls.len(), MAX_CHANGES)?;
        each("notes", &self.notes, note)?;
        each("bends", &self.bends, bend)?;
        each("controls", &self.controls, control)
    }
}

fn each<T>(list: &str, items: &[T], check: fn(&T) -> Result<()>) -> Result<()> {
    let numbered = |(index, item)| check(item).map_err(|error| error.at(format!("{list}[{index}]")));
    items.iter().enumerate().try_for_each(numbered)
}

fn note(note: &Note) -> Result<()> {
    within("start", note.start, [0.0, MAX_SECONDS], "seconds")?;
    within("duration", note.duration, [0.0, MAX_SECONDS], "seconds")?;
    within("start + duration", note.start + note.duration, [0.0, MAX_SECONDS], "seconds")?;
    at_most("key", note.key, 127)?;
    at_most("channel", note.channel, 15)?;
    within("velocity", note.velocity.into(), [0.0, 1.0], "as a share")?;
    within("pan", note.pan.into(), [-1.0, 1.0], "from left to right")
}

fn bend(bend: &Bend) -> Result<()> {
    within("at", bend.at, [0.0, MAX_SECONDS], "seconds")?;
    at_most("channel", bend.channel, 15)?;
    within("semitones", bend.semitones.into(), [-MAX_BEND, MAX_BEND].map(f64::from), "up or down")
}

fn control(control: &Control) -> Result<()> {
    within("at", control.at, [0.0, MAX_SECONDS], "seconds")?;
    let [low, high] = control.parameter.range().map(f64::from);
    within(control.parameter.name(), control.value.into(), [low, high], "as a factor")
}

/// Checks that `value` is between `low` and `high`, which a NaN never is.
fn within(name: &str, value: f64, [low, high]: [f64; 2], meaning: &str) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{name} is {value}; {low} to {high} {meaning}"))
        .with_hint("docs/score.schema.json has every limit; times are in seconds from the beginning"))
}

fn at_most(name: &str, value: u8, limit: u8) -> Result<()> {
    within(name, value.into(), [0.0, limit.into()], "in MIDI's numbers")
}

fn count(name: &str, n: usize, limit: usize) -> Result<()> {
    if n <= limit {
        return Ok(());
    }
    Err(Error::invalid(format!("{n} {name}; at most {limit}")).with_hint("cut the score into parts"))
}
