//! The parameters of a voice.

use crate::{Error, Result};

/// Partials of an additive voice.
pub const N_PARTIALS: usize = 8;

/// A voice, ready to begin. Rates and frequencies are per sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Voice {
    /// The oscillators.
    pub source: Source,
    /// The envelope of its level.
    pub envelope: Envelope,
    /// Factors for left and right, 0 to 1.
    pub gain: [f32; 2],
}

/// The kind of oscillator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// Sine and saw through a low-pass filter.
    Tone(Tone),
    /// Harmonics that each decay at their own rate.
    Partials(Partials),
    /// A sine that falls in pitch.
    Drum(Drum),
    /// Filtered noise.
    Noise(Noise),
}

/// Sine and saw through a low-pass filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tone {
    /// The sine's frequency in 2^-64 turns per sample.
    pub increment: u64,
    /// The saw's frequency in the same unit.
    pub saw_increment: u64,
    /// The sine's level, -1 to 1.
    pub sine: f32,
    /// The saw's level, -1 to 1.
    pub saw: f32,
    /// The filter.
    pub filter: Filter,
}

/// The state-variable filter and how its cutoff moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filter {
    /// log2 of cutoff by sample rate, -14 to 0; the cutoff stays below 0.45 of the rate.
    pub octaves: f32,
    /// Extra octaves at the onset, -16 to 16.
    pub sweep: f32,
    /// Decay of the sweep: by 2^-rate per sample, 0 to 1.
    pub rate: f32,
    /// Frequency of the modulation in 2^-32 turns per sample.
    pub lfo_increment: u32,
    /// Its phase at the onset.
    pub lfo_phase: u32,
    /// Its depth in octaves, -8 to 8.
    pub lfo_depth: f32,
    /// 1/Q, 0.1 to 4.
    pub damping: f32,
}

/// Harmonics that each decay at their own rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Partials {
    /// The fundamental in 2^-64 turns per sample. Partials at or above 0.47 of the sample rate are
    /// silent.
    pub increment: u64,
    /// Levels at the onset, -1 to 1.
    pub levels: [f32; N_PARTIALS],
    /// Decay of the levels: by 2^-rate per sample, 0 to 1.
    pub rates: [f32; N_PARTIALS],
}

/// A sine that falls in pitch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drum {
    /// Its final frequency in 2^-32 turns per sample.
    pub increment: u32,
    /// Additional turns that it makes, 0 to 16.
    pub drop: f32,
    /// Speed of the additional turns: half of the rest in 1/rate samples. The initial frequency is
    /// at most 1/65 of the sample rate, less than half a turn in a tick.
    pub rate: f32,
}

/// Filtered noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Selects the noise.
    pub seed: u32,
    /// The filter.
    pub filter: Filter,
    /// Levels of input, band-pass and low-pass in the output, -4 to 4.
    pub mix: [f32; 3],
}

/// An envelope: up, to the sustained level, and down when released.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Envelope {
    /// From 0 to 1.
    pub attack: Segment,
    /// From 1 to `sustain`. If that is 0, the voice ends with the decay.
    pub decay: Segment,
    /// 0 to 1.
    pub sustain: f32,
    /// From the current level to 0.
    pub release: Segment,
}

/// A part of an envelope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its length, 1 to 2^24.
    pub samples: u32,
    /// How much faster it moves at first, 0.01 (nearly linear) to 24.
    pub curve: f32,
}

impl Voice {
    /// Checks every value.
    ///
    /// # Errors
    /// A value is outside its range.
    pub fn check(&self) -> Result<()> {
        let Envelope { attack, decay, sustain, release } = self.envelope;
        for segment in [attack, decay, release] {
            within("an envelope's samples", segment.samples as f32, [1.0, (1 << 24) as f32])?;
            within("an envelope's curve", segment.curve, [0.01, 24.0])?;
        }
        within("sustain", sustain, [0.0, 1.0])?;
        self.gain.iter().try_for_each(|&gain| within("gain", gain, [0.0, 1.0]))?;
        match &self.source {
            Source::Tone(tone) => {
                within("sine", tone.sine, [-1.0, 1.0])?;
                within("saw", tone.saw, [-1.0, 1.0])?;
                tone.filter.check()
            }
            Source::Partials(partials) => {
                partials.levels.iter().try_for_each(|&level| within("a partial's level", level, [-1.0, 1.0]))?;
                partials.rates.iter().try_for_each(|&rate| within("a partial's rate", rate, [0.0, 1.0]))
            }
            Source::Drum(drum) => {
                within("drop", drum.drop, [0.0, 16.0])?;
                within("rate", drum.rate, [0.0, 1.0])?;
                let first = drum.increment as f32 / 4_294_967_296.0 + drum.drop * drum.rate * std::f32::consts::LN_2;
                within("a drum's first frequency by the sample rate", first, [0.0, 1.0 / 65.0])
            }
            Source::Noise(noise) => {
                noise.mix.iter().try_for_each(|&level| within("a level of the filter", level, [-4.0, 4.0]))?;
                noise.filter.check()
            }
        }
    }
}

impl Partials {
    /// Returns levels at the onset; partials at or above 0.47 of the sample rate are 0.
    pub(super) fn audible_levels(&self) -> [f32; N_PARTIALS] {
        audible(self.levels, self.increment)
    }
}

/// Returns the `levels` of the partials of a frequency, with partials at or above 0.47 of the
/// sample rate set to 0.
pub(super) fn audible(levels: [f32; N_PARTIALS], increment: u64) -> [f32; N_PARTIALS] {
    let limit = (0.47 * 2f64.powi(64)) as u64;
    std::array::from_fn(|k| if increment > limit / (k as u64 + 1) { 0.0 } else { levels[k] })
}

impl Filter {
    fn check(&self) -> Result<()> {
        within("octaves", self.octaves, [-14.0, 0.0])?;
        within("sweep", self.sweep, [-16.0, 16.0])?;
        within("rate", self.rate, [0.0, 1.0])?;
        within("depth", self.lfo_depth, [-8.0, 8.0])?;
        within("damping", self.damping, [0.1, 4.0])
    }
}

fn within(name: &str, value: f32, [low, high]: [f32; 2]) -> Result<()> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::invalid(format!("voice: {name} is {value}, outside {low} to {high}")))
}
