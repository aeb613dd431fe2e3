//! Phrases: chords, melody, kicks and swells, rendered in one batch into memory that was allocated before.

use super::engine::{Buses, Engine, EngineConfig};
use super::instrument::Instrument;
use super::note::PlacedNote;
use super::score::{MAX_NOTES, MAX_SECONDS};
use crate::runtime::device::Queue;
use crate::{Error, Result};

/// Notes of a stretch of time. Times are in seconds from its beginning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Phrase {
    /// How long it is.
    pub seconds: f64,
    /// Pads.
    pub chords: Vec<Chord>,
    /// Leads.
    pub melody: Vec<Melody>,
    /// Kicks.
    pub kicks: Vec<Kick>,
    /// Swells.
    pub swells: Vec<Swell>,
}

/// Pads that begin together.
#[derive(Debug, Clone, PartialEq)]
pub struct Chord {
    /// When it begins.
    pub onset: f64,
    /// When it is released, after that.
    pub duration: f64,
    /// Its keys.
    pub keys: Vec<u8>,
    /// 0 to 1.
    pub velocity: f32,
}

/// A note of the melody.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Melody {
    /// When it begins.
    pub onset: f64,
    /// When it is released, after that.
    pub duration: f64,
    /// Its key.
    pub key: u8,
    /// 0 to 1.
    pub velocity: f32,
}

/// A kick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kick {
    /// When it begins.
    pub onset: f64,
    /// 0 to 1.
    pub velocity: f32,
}

/// A swell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swell {
    /// When it begins.
    pub onset: f64,
    /// When it is released, after that.
    pub duration: f64,
    /// 0 to 1.
    pub velocity: f32,
}

/// Rendered samples, for effects to work on in place.
#[derive(Debug)]
pub struct Sound<'a> {
    /// Left.
    pub left: &'a mut [f32],
    /// Right.
    pub right: &'a mut [f32],
}

/// Renders phrases one after the other; notes that still ring go on into the next. Its buffers are allocated once, and
/// rendering allocates nothing.
#[derive(Debug)]
pub struct PhraseRenderer {
    engine: Engine,
    left: Vec<f32>,
    right: Vec<f32>,
    n_notes: u64,
}

/// The bass drum's key.
const KICK_KEY: u8 = 36;
const SWELL_KEY: u8 = 60;
const MAX_KEY: u8 = 127;

impl Phrase {
    /// Returns how many notes it has.
    pub fn n_notes(&self) -> usize {
        let n_pads: usize = self.chords.iter().map(|chord| chord.keys.len()).sum();
        n_pads + self.melody.len() + self.kicks.len() + self.swells.len()
    }

    /// Checks that all of it can be played.
    ///
    /// # Errors
    /// A time is not between 0 and a day, a key is above 127, a velocity is not between 0 and 1, or there are more than
    /// a million notes; the message names the first of these.
    pub fn check(&self) -> Result<()> {
        if self.n_notes() > MAX_NOTES {
            return Err(Error::invalid(format!("phrase has {} notes; at most {MAX_NOTES}", self.n_notes()))
                .with_hint("cut it into shorter phrases"));
        }
        within(&"the phrase's seconds", self.seconds, MAX_SECONDS)?;
        let note = |part: &str, index: usize, [onset, duration]: [f64; 2], velocity: f32| {
            within(&format_args!("{part} {index}: the onset"), onset, MAX_SECONDS)?;
            within(&format_args!("{part} {index}: the duration"), duration, MAX_SECONDS)?;
            within(&format_args!("{part} {index}: the velocity"), velocity.into(), 1.0)
        };
        let key = |part: &str, index: usize, key: u8| {
            within(&format_args!("{part} {index}: the key"), key.into(), f64::from(MAX_KEY))
        };
        for (index, chord) in self.chords.iter().enumerate() {
            note("chord", index, [chord.onset, chord.duration], chord.velocity)?;
            chord.keys.iter().try_for_each(|&each| key("chord", index, each))?;
        }
        for (index, tone) in self.melody.iter().enumerate() {
            note("melody", index, [tone.onset, tone.duration], tone.velocity)?;
            key("melody", index, tone.key)?;
        }
        for (index, kick) in self.kicks.iter().enumerate() {
            note("kick", index, [kick.onset, 0.0], kick.velocity)?;
        }
        for (index, swell) in self.swells.iter().enumerate() {
            note("swell", index, [swell.onset, swell.duration], swell.velocity)?;
        }
        Ok(())
    }

    /// Hands its notes to `each`, in no order, as they lie when the phrase begins at sample `at`.
    ///
    /// # Errors
    /// What `each` returns.
    pub fn place(&self, at: u64, sample_rate: u32, mut each: impl FnMut(PlacedNote) -> Result<()>) -> Result<()> {
        let sample = |seconds: f64| at.saturating_add((seconds.max(0.0) * f64::from(sample_rate)).round() as u64);
        let mut note = |instrument, key: u8, velocity, [onset, duration]: [f64; 2], pan| {
            let release = onset + f64::max(duration, 0.0);
            let (start, release) = (sample(onset), sample(release));
            each(PlacedNote { instrument, channel: 0, key, velocity, pan, start, release })
        };
        for chord in &self.chords {
            let middle = (chord.keys.len().max(2) - 1) as f32 / 2.0;
            for (index, &key) in chord.keys.iter().enumerate() {
                let pan = 0.5 * (index as f32 - middle) / middle;
                note(Instrument::Pad, key, chord.velocity, [chord.onset, chord.duration], pan.clamp(-1.0, 1.0))?;
            }
        }
        for tone in &self.melody {
            note(Instrument::Lead, tone.key, tone.velocity, [tone.onset, tone.duration], 0.0)?;
        }
        for kick in &self.kicks {
            note(Instrument::Kick, KICK_KEY, kick.velocity, [kick.onset, 0.0], 0.0)?;
        }
        for swell in &self.swells {
            note(Instrument::Swell, SWELL_KEY, swell.velocity, [swell.onset, swell.duration], 0.0)?;
        }
        Ok(())
    }
}

fn within(name: &dyn std::fmt::Display, value: f64, most: f64) -> Result<()> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{name} is {value}; 0 to {most} is allowed")))
}

impl PhraseRenderer {
    /// Reserves room for phrases of up to `seconds`. Where a trace is taken, each part is rendered under its own name.
    ///
    /// # Errors
    /// As [`Engine::new`], or `seconds` is not between 0 and 3600.
    pub fn new(config: EngineConfig, seconds: f64) -> Result<Self> {
        let buses = if tracing::enabled!(tracing::Level::INFO) { Buses::Stems } else { config.buses };
        if !(0.0..=3600.0).contains(&seconds) {
            return Err(Error::invalid(format!("synth: bad pool of {seconds} s")).with_hint("use 0 to 3600 seconds"));
        }
        let len = (seconds * f64::from(config.sample_rate)).ceil() as usize;
        let engine = Engine::new(EngineConfig { buses, ..config })?;
        Ok(Self { engine, left: vec![0.0; len], right: vec![0.0; len], n_notes: 0 })
    }

    /// Returns the engine, for bends and parameters.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the bytes of the buffers.
    pub fn buffer_bytes(&self) -> usize {
        (self.left.capacity() + self.right.capacity()) * size_of::<f32>()
    }

    /// Returns the next phrase, all its voices in one batch.
    ///
    /// # Errors
    /// Those of [`Phrase::check`], the phrase is longer than the buffers, or its notes do not fit into the engine's events.
    /// The engine is unchanged then.
    pub fn render_phrase(&mut self, phrase: &Phrase) -> Result<Sound<'_>> {
        self.render(None, phrase)
    }

    /// Works like [`PhraseRenderer::render_phrase`], the same bits, on all threads of a CPU queue.
    ///
    /// # Errors
    /// As there.
    pub fn render_phrase_on(&mut self, queue: &Queue, phrase: &Phrase) -> Result<Sound<'_>> {
        self.render(Some(queue), phrase)
    }

    fn render(&mut self, queue: Option<&Queue>, phrase: &Phrase) -> Result<Sound<'_>> {
        phrase.check()?;
        let EngineConfig { sample_rate: rate, max_events, .. } = self.engine.config();
        let n_events = self.engine.waiting() + 2 * phrase.n_notes();
        if n_events > max_events {
            return Err(Error::invalid(format!(
                "{n_events} events with those of the phrase; max_events is {max_events}"
            ))
            .with_hint("raise max_events, or cut the phrase into shorter ones"));
        }
        let len = (phrase.seconds * f64::from(rate)).round() as usize;
        if len > self.left.len() {
            return Err(Error::invalid(format!("a phrase of {len} samples; the pool has {}", self.left.len()))
                .with_hint("make the renderer for longer phrases"));
        }
        let _span = tracing::info_span!("phrase", samples = len).entered();
        let (engine, n_notes) = (&mut self.engine, &mut self.n_notes);
        phrase.place(engine.position(), rate, |note| {
            *n_notes += 1;
            note.events(*n_notes).into_iter().try_for_each(|event| engine.push(event))
        })?;
        let (left, right) = (&mut self.left[..len], &mut self.right[..len]);
        match queue {
            None => engine.render(left, right),
            Some(queue) => engine.render_on(queue, left, right),
        }
        Ok(Sound { left, right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_played_is_named() {
        let check = |[onset, duration]: [f64; 2], velocity: f32, key: u8| {
            let melody = vec![Melody { onset, duration, key, velocity }];
            Phrase { seconds: 1.0, melody, ..Phrase::default() }.check().map_err(|error| error.to_string())
        };
        assert_eq!(check([MAX_SECONDS; 2], 1.0, 127), Ok(()));
        let refused = |what: &str, most: &str| Err(format!("melody 0: the {what}; 0 to {most} is allowed"));
        assert_eq!(check([-0.5, 0.0], 1.0, 60), refused("onset is -0.5", "86400"));
        assert_eq!(check([f64::NAN, 0.0], 1.0, 60), refused("onset is NaN", "86400"));
        assert_eq!(check([0.0, 86_401.0], 1.0, 60), refused("duration is 86401", "86400"));
        assert_eq!(check([0.0; 2], 1.5, 60), refused("velocity is 1.5", "1"));
        assert_eq!(check([0.0; 2], 1.0, 128), refused("key is 128", "127"));
        let long = Phrase { seconds: 86_401.0, ..Phrase::default() }.check().unwrap_err();
        assert_eq!(long.to_string(), "the phrase's seconds is 86401; 0 to 86400 is allowed");
    }
}
