//! Generated music: chords by a walk over the degrees of a mode, a bass, a melody, arpeggios, percussion and swells.
//!
//! The same style and seed give the same notes on every machine: the composer draws and adds integers only, and times are
//! ticks, so a MIDI file holds the piece exactly. Phrases of eight bars follow each other without end; a longer piece
//! begins like a shorter one.
//!
//! ```
//! use melisma::synth::{Style, compose};
//! let style = Style::named("focus")?;
//! let score = compose(&style, 7, 60.0)?;
//! assert_eq!(score, compose(&style, 7, 60.0)?);
//! # Ok::<(), melisma::Error>(())
//! ```

mod harmony;
mod melody;
mod mode;
mod preset;
mod preset_file;
mod random;
mod rhythm;
mod variation;

use harmony::{Chord, Harmony, above};
use melody::Melody;
pub use mode::Mode;
pub use preset::{STYLES, Style};
use random::Random;
use rhythm::BAR;
pub use variation::Variation;

use super::instrument::Instrument;
use super::midi::DIVISION;
use super::score::{Control, MAX_SECONDS, Note, Score};
use crate::{Error, Result};

/// Bars of a phrase.
const PHRASE: u32 = 8;
/// Ticks of a sixteenth.
const STEP: u64 = DIVISION as u64 / 4;

/// Returns the seed of a text: the number itself where it has at most 64 bits, else a hash of the
/// text.
pub fn seed(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| {
        let hash = blake3::hash(text.as_bytes());
        u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
    })
}

/// Returns a piece of `seconds` in `style`.
///
/// # Errors
/// Those of [`Style::check`], or `seconds` is not between 0 and a day.
pub fn compose(style: &Style, seed: u64, seconds: f64) -> Result<Score> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(Error::invalid(format!("a piece of {seconds} s is out of range: 0 to {MAX_SECONDS}"))
            .with_hint("a day is the longest piece"));
    }
    style.check()?;
    let mut composer = Composer::new(style.clone(), seed);
    let mut notes = Vec::new();
    while composer.seconds() < seconds {
        notes.extend(composer.phrase());
    }
    notes.retain(|note| note.start < seconds);
    for note in &mut notes {
        note.duration = note.duration.min(seconds - note.start);
    }
    let control = |(parameter, value)| Control { at: 0.0, parameter, value };
    let controls = style.controls.into_iter().map(control).collect();
    let mut score = Score { tempo: 60e6 / f64::from(style.beat_us), notes, bends: Vec::new(), controls };
    score.sort();
    Ok(score)
}

/// Parts of a phrase, each with its own random numbers and channel.
#[derive(Debug, Clone, Copy)]
enum Part {
    Chords,
    Melody,
    Arpeggio,
    Bass,
    Swell,
    Drums = 9,
}

/// Composes phrase after phrase.
#[derive(Debug, Clone)]
pub struct Composer {
    style: Style,
    seed: u64,
    harmony: Harmony,
    melody: Melody,
    n_phrases: u64,
}

/// A phrase that is being composed.
struct Phrase<'a> {
    style: &'a Style,
    /// Ticks before it.
    begin: u64,
    notes: Vec<Note>,
}

/// A note in ticks from the phrase's beginning.
struct Played {
    part: Part,
    instrument: Instrument,
    start: u64,
    len: u64,
    key: u8,
    /// Of 127.
    velocity: u32,
    /// Of 63, to the left and to the right.
    place: i8,
}

impl Composer {
    /// Creates a composer before its first phrase. Figures of the style that are out of their ranges count as the
    /// nearest that are not.
    pub fn new(style: Style, seed: u64) -> Self {
        let style = style.clamped();
        let harmony = Harmony::new(style.mode, style.tonic, style.colours);
        let melody = Melody::new(style.mode, style.tonic);
        Self { style, seed, harmony, melody, n_phrases: 0 }
    }

    /// Returns where the next phrase begins.
    pub fn seconds(&self) -> f64 {
        seconds(&self.style, self.ticks())
    }

    fn ticks(&self) -> u64 {
        self.n_phrases * u64::from(PHRASE * BAR) * STEP
    }

    fn random(&self, part: Part) -> Random {
        Random::new(self.seed, self.n_phrases, part as u64)
    }

    /// Returns the notes of the next phrase, part by part; times count from the beginning of the
    /// piece.
    pub fn phrase(&mut self) -> Vec<Note> {
        let style = self.style.clone();
        let mut phrase = Phrase { style: &style, begin: self.ticks(), notes: Vec::new() };
        let mut random = self.random(Part::Chords);
        let n_chords = PHRASE / style.bars_per_chord.clamp(1, PHRASE);
        let chords: Vec<Chord> = (0..n_chords).map(|_| self.harmony.next(&mut random)).collect();
        phrase.pads(&chords, &mut random);
        phrase.bass(&chords, &mut self.random(Part::Bass));
        let mut random = self.random(Part::Melody);
        self.melody.begin(&mut random);
        phrase.melody(&chords, &mut self.melody, &mut random);
        phrase.arpeggio(&chords, &mut self.random(Part::Arpeggio));
        phrase.drums(&mut self.random(Part::Drums));
        phrase.swell(&chords, &mut self.random(Part::Swell));
        self.n_phrases += 1;
        phrase.notes
    }
}

impl Phrase<'_> {
    fn play(&mut self, played: Played) {
        let (start, end) = (self.begin + played.start, self.begin + played.start + played.len);
        let start = seconds(self.style, start);
        let velocity = (played.velocity * u32::from(self.style.velocity) / 100).clamp(1, 127);
        self.notes.push(Note {
            instrument: played.instrument,
            start,
            duration: seconds(self.style, end) - start,
            key: played.key,
            velocity: velocity as f32 / 127.0,
            pan: f32::from(played.place) / 63.0,
            channel: played.part as u8,
        });
    }

    fn chord_len(&self) -> u64 {
        u64::from(self.style.bars_per_chord * BAR) * STEP
    }

    fn pads(&mut self, chords: &[Chord], random: &mut Random) {
        for (index, chord) in chords.iter().enumerate() {
            for (voice, key) in chord.voices.into_iter().enumerate() {
                let velocity = 62 + random.below(14);
                let place = [-36, 20, -12, 40][voice];
                let (start, len) = (index as u64 * self.chord_len(), self.chord_len());
                self.play(Played { part: Part::Chords, instrument: Instrument::Pad, start, len, key, velocity, place });
            }
        }
    }

    fn bass(&mut self, chords: &[Chord], random: &mut Random) {
        for (index, chord) in chords.iter().enumerate() {
            let start = index as u64 * self.chord_len();
            // A fifth of the bars repeat the bass on the third beat.
            let parts = if random.chance(20) { 2 } else { 1 };
            for part in 0..parts {
                let len = self.chord_len() / parts;
                let (start, velocity) = (start + part * len, 78 + random.below(10));
                let (instrument, key) = (Instrument::Bass, chord.bass);
                self.play(Played { part: Part::Bass, instrument, start, len, key, velocity, place: 0 });
            }
        }
    }

    fn melody(&mut self, chords: &[Chord], melody: &mut Melody, random: &mut Random) {
        for bar in 0..PHRASE {
            for &(at, len) in rhythm::melody(random, self.style.melody) {
                let step = bar * BAR + at;
                let key = melody.next(random, &chords[self.chord_at(chords, bar)], step * 1000 / (PHRASE * BAR));
                // Louder towards the middle of the phrase, and on the beat.
                let rise = 16 - (2 * bar).abs_diff(PHRASE);
                let velocity = 58 + rise + if at % 4 == 0 { 8 } else { 0 } + random.below(8);
                let (start, len) = (u64::from(step) * STEP, u64::from(len) * STEP);
                let (part, instrument) = (Part::Melody, Instrument::Lead);
                self.play(Played { part, instrument, start, len, key, velocity, place: 10 });
            }
        }
    }

    fn arpeggio(&mut self, chords: &[Chord], random: &mut Random) {
        for bar in 0..PHRASE {
            if !random.chance(self.style.arpeggio) {
                continue;
            }
            let chord = &chords[self.chord_at(chords, bar)];
            let order = random.pick(&[[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 2, 0]]);
            for eighth in 0..8u32 {
                if !random.chance(85) {
                    continue;
                }
                let key = chord.voices[order[eighth as usize % 4]] + 12;
                let start = u64::from(bar * BAR + 2 * eighth) * STEP;
                let velocity = 48 + random.below(16) + if eighth % 4 == 0 { 10 } else { 0 };
                let place = if eighth % 2 == 0 { -40 } else { 40 };
                let (part, instrument) = (Part::Arpeggio, Instrument::Pluck);
                self.play(Played { part, instrument, start, len: 2 * STEP, key, velocity, place });
            }
        }
    }

    fn drums(&mut self, random: &mut Random) {
        for bar in 0..PHRASE {
            for at in rhythm::kicks(random, self.style.kick) {
                let velocity = 84 + random.below(12);
                self.drum(Instrument::Kick, bar * BAR + at, velocity);
            }
            for at in rhythm::hats(random, self.style.hat) {
                let velocity = 40 + random.below(16);
                self.drum(Instrument::Hat, bar * BAR + at, velocity);
            }
        }
    }

    fn drum(&mut self, instrument: Instrument, step: u32, velocity: u32) {
        let (key, place) = if instrument == Instrument::Kick { (36, 0) } else { (42, 24) };
        let start = u64::from(step) * STEP;
        self.play(Played { part: Part::Drums, instrument, start, len: STEP, key, velocity, place });
    }

    /// Adds a swell over the last half of the phrase, into the next one.
    fn swell(&mut self, chords: &[Chord], random: &mut Random) {
        if random.chance(self.style.swell) {
            let half = u64::from(PHRASE * BAR / 2) * STEP;
            let key = above(60, chords[0].classes[0]);
            let velocity = 60 + random.below(20);
            let (part, instrument) = (Part::Swell, Instrument::Swell);
            self.play(Played { part, instrument, start: half, len: half, key, velocity, place: 0 });
        }
    }

    fn chord_at(&self, chords: &[Chord], bar: u32) -> usize {
        ((bar / self.style.bars_per_chord.max(1)) as usize).min(chords.len() - 1)
    }
}

/// Returns the time of `ticks`, as a MIDI file at this tempo has it.
fn seconds(style: &Style, ticks: u64) -> f64 {
    (u128::from(ticks) * u128::from(style.beat_us)) as f64 / (1e6 * f64::from(DIVISION))
}

#[cfg(test)]
mod tests;
