//! Named kinds of music.

use std::borrow::Cow;

use serde::Serialize;

use super::PHRASE;
use super::mode::Mode;
use super::random::Random;
use crate::synth::parameter::Parameter;
use crate::{Error, Result};

/// The settings of a composer. Shares are in percent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Style {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it is good for.
    pub about: Cow<'static, str>,
    /// The scale.
    pub mode: Mode,
    /// Pitch class of the tonic, C is 0.
    pub tonic: u8,
    /// Microseconds of a beat.
    pub beat_us: u32,
    /// Bars of four beats for each chord.
    pub bars_per_chord: u32,
    /// How often chords are triads, sevenths, ninths, and suspended by the second and the fourth.
    pub colours: [u32; 5],
    /// How much of a bar's rhythm the melody plays.
    pub melody: u32,
    /// Bars with an arpeggio.
    pub arpeggio: u32,
    /// Beats with a kick.
    pub kick: u32,
    /// Off-beats with a hat.
    pub hat: u32,
    /// Phrases that a swell leads into.
    pub swell: u32,
    /// Loudness of everything, of 127.
    pub velocity: u8,
    /// The values of the controls.
    pub controls: [(Parameter, f32); 5],
}

/// All styles.
pub const STYLES: [Style; 4] = [
    Style {
        name: Cow::Borrowed("focus"),
        about: Cow::Borrowed("D dorian, 72 beats a minute: a calm pulse"),
        mode: Mode::Dorian,
        tonic: 2,
        beat_us: 833_333,
        bars_per_chord: 1,
        colours: [30, 30, 25, 10, 5],
        melody: 55,
        arpeggio: 45,
        kick: 55,
        hat: 30,
        swell: 60,
        velocity: 84,
        controls: controls([0.8, 1.0, 0.4, 0.25, 0.2]),
    },
    Style {
        name: Cow::Borrowed("meditation"),
        about: Cow::Borrowed("C aeolian, 54 beats a minute: long chords and few notes"),
        mode: Mode::Aeolian,
        tonic: 0,
        beat_us: 1_111_111,
        bars_per_chord: 2,
        colours: [35, 20, 30, 10, 5],
        melody: 35,
        arpeggio: 15,
        kick: 0,
        hat: 0,
        swell: 90,
        velocity: 72,
        controls: controls([0.8, 0.7, 0.6, 0.4, 0.15]),
    },
    Style {
        name: Cow::Borrowed("sleep"),
        about: Cow::Borrowed("E phrygian, 48 beats a minute: dark and still"),
        mode: Mode::Phrygian,
        tonic: 4,
        beat_us: 1_250_000,
        bars_per_chord: 2,
        colours: [50, 15, 15, 10, 10],
        melody: 18,
        arpeggio: 0,
        kick: 0,
        hat: 0,
        swell: 100,
        velocity: 60,
        controls: controls([0.7, 0.4, 0.8, 0.5, 0.1]),
    },
    Style {
        name: Cow::Borrowed("bright"),
        about: Cow::Borrowed("G lydian, 92 beats a minute: open and moving"),
        mode: Mode::Lydian,
        tonic: 7,
        beat_us: 652_174,
        bars_per_chord: 1,
        colours: [20, 30, 30, 10, 10],
        melody: 75,
        arpeggio: 70,
        kick: 80,
        hat: 60,
        swell: 50,
        velocity: 92,
        controls: controls([0.8, 1.6, 0.3, 0.2, 0.25]),
    },
];

impl Style {
    /// Returns the style called `name`.
    ///
    /// # Errors
    /// No style has this name.
    pub fn named(name: &str) -> Result<Self> {
        STYLES.into_iter().find(|style| style.name == name).ok_or_else(|| {
            let names = STYLES.map(|style| style.name).join(", ");
            Error::invalid(format!("unknown preset `{name:.64}`")).with_hint(format!("use {names}"))
        })
    }

    /// Checks that it can be composed in.
    ///
    /// # Errors
    /// The message names the first figure that is out of its range.
    pub fn check(&self) -> Result<()> {
        let clamped = self.clone().clamped();
        for (name, given, allowed) in [
            ("tonic", self.tonic.into(), clamped.tonic.into()),
            ("beat_us", self.beat_us, clamped.beat_us),
            ("bars_per_chord", self.bars_per_chord, clamped.bars_per_chord),
            ("melody", self.melody, clamped.melody),
            ("arpeggio", self.arpeggio, clamped.arpeggio),
            ("kick", self.kick, clamped.kick),
            ("hat", self.hat, clamped.hat),
            ("swell", self.swell, clamped.swell),
            ("velocity", self.velocity.into(), clamped.velocity.into()),
        ] {
            if given != allowed {
                return Err(Error::invalid(format!("style: {name} is {given}; the nearest that works is {allowed}")));
            }
        }
        for (parameter, value) in self.controls {
            let [least, most] = parameter.range();
            if !(least..=most).contains(&value) {
                return Err(Error::invalid(format!("style: {} is {value}; {least} to {most}", parameter.name())));
            }
        }
        match self.colours.iter().position(|colour| *colour > MOST_COLOUR) {
            Some(at) => Err(Error::invalid(format!("style: colour {at} is {}; 0 to {MOST_COLOUR}", self.colours[at]))),
            None => Ok(()),
        }
    }

    /// Returns every figure within its range.
    pub(super) fn clamped(self) -> Self {
        let share = |percent: u32| percent.min(100);
        Self {
            tonic: self.tonic.min(11),
            beat_us: self.beat_us.clamp(60_000, 6_000_000),
            bars_per_chord: self.bars_per_chord.clamp(1, PHRASE),
            colours: self.colours.map(|colour| colour.min(MOST_COLOUR)),
            melody: share(self.melody),
            arpeggio: share(self.arpeggio),
            kick: share(self.kick),
            hat: share(self.hat),
            swell: share(self.swell),
            velocity: self.velocity.min(127),
            ..self
        }
    }

    /// Returns this style in another key, tempo, density and sound, by `seed`: for sets of pieces that differ.
    #[must_use]
    pub fn varied(&self, seed: u64) -> Self {
        let base = self.clone().clamped();
        let mut random = Random::new(seed, u64::MAX, 0);
        let mut around = |value: u32, spread: u32| value.saturating_sub(spread) + random.below(2 * spread + 1);
        let beat_us = base.beat_us / 100 * around(100, 15);
        let mut share = |value: u32| if value == 0 { 0 } else { around(value, 20).min(100) };
        let [melody, arpeggio] = [base.melody, base.arpeggio].map(&mut share);
        let [kick, hat, swell] = [base.kick, base.hat, base.swell].map(&mut share);
        let velocity = around(u32::from(base.velocity), 12).min(127) as u8;
        let tonic = random.below(12) as u8;
        let controls = base.controls.map(|(parameter, value)| {
            let [low, high] = parameter.range();
            (parameter, (value * (50 + random.below(101)) as f32 / 100.0).clamp(low, high))
        });
        let varied = Self { beat_us, melody, arpeggio, kick, hat, swell, velocity, tonic, controls, ..base };
        Self { about: Cow::Owned(varied.described()), ..varied }
    }

    /// Returns the key, the tempo and the preset that it comes from.
    pub(super) fn described(&self) -> String {
        format!("{}: {} varied", self.heading(), self.name)
    }

    /// Returns the key and the tempo, with which the texts of presets begin.
    pub(super) fn heading(&self) -> String {
        format!("{} {}, {:.0} beats a minute", self.key(), self.mode.name(), 60e6 / f64::from(self.beat_us))
    }
}

/// The largest weight of a colour.
const MOST_COLOUR: u32 = 1_000_000;
/// The names of the tonics.
pub(super) const PITCH_CLASSES: [&str; 12] = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];

/// Returns the pitch class of a key such as `F#`, `Gb` or `g`.
pub(super) fn pitch_class(key: &str) -> Option<u8> {
    let mut letters = key.chars();
    let natural = match letters.next()?.to_ascii_uppercase() {
        'C' => 0,
        'D' => 2,
        'E' => 4,
        'F' => 5,
        'G' => 7,
        'A' => 9,
        'B' => 11,
        _ => return None,
    };
    match letters.as_str() {
        "" => Some(natural),
        "#" => Some((natural + 1) % 12),
        "b" => Some((natural + 11) % 12),
        _ => None,
    }
}

/// Returns gain, brightness, motion, reverb and delay.
const fn controls([gain, brightness, motion, reverb, delay]: [f32; 5]) -> [(Parameter, f32); 5] {
    [
        (Parameter::Gain, gain),
        (Parameter::Brightness, brightness),
        (Parameter::Motion, motion),
        (Parameter::Reverb, reverb),
        (Parameter::Delay, delay),
    ]
}
