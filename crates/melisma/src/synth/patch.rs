//! What each instrument sounds like: figures in hertz and seconds, turned into voices of a sample rate.

use std::f64::consts::{FRAC_PI_4, LN_2};

use melisma_kernels::signal::voice::{
    Drum, Envelope, Filter, N_PARTIALS, Noise, Partials, Segment, Source, Tone, Voice,
};

use super::instrument::Instrument;

/// The pitch of a note.
#[derive(Debug, Clone, Copy)]
pub struct Pitch {
    /// MIDI key.
    pub key: u8,
    /// Its channel's bend.
    pub semitones: f32,
    /// Samples per second.
    pub sample_rate: u32,
}

/// How a note is played.
#[derive(Debug, Clone, Copy)]
pub struct Touch {
    /// 0 to 1.
    pub velocity: f32,
    /// -1 to 1.
    pub pan: f32,
    /// Varies what should differ from note to note.
    pub seed: u32,
}

/// Cents between a pad's sine and saw.
const DETUNE_CENTS: f64 = 5.0;

impl Pitch {
    fn hz(self) -> f64 {
        440.0 * ((f64::from(self.key) - 69.0 + f64::from(self.semitones)) / 12.0).exp2()
    }

    fn rate(self) -> f64 {
        f64::from(self.sample_rate)
    }

    fn turns(self, hz: f64) -> u64 {
        ((hz / self.rate()).clamp(1e-9, 0.45) * 2f64.powi(64)) as u64
    }

    /// Returns the increments of the main oscillator and of the saw.
    pub fn increments(self, instrument: Instrument) -> [u64; 2] {
        let detune = if instrument == Instrument::Pad { (DETUNE_CENTS / 1200.0).exp2() } else { 1.0 };
        [self.turns(self.hz()), self.turns(self.hz() * detune)]
    }

    fn segment(self, seconds: f64, curve: f32) -> Segment {
        Segment { samples: (seconds * self.rate()).round().clamp(1.0, f64::from(1 << 24)) as u32, curve }
    }

    /// Returns the seconds and curves of attack, decay and release, and the level between the last two.
    fn envelope(self, segments: [(f64, f32); 3], sustain: f32) -> Envelope {
        let [attack, decay, release] = segments.map(|(seconds, curve)| self.segment(seconds, curve));
        Envelope { attack, decay, sustain, release }
    }

    /// Returns a filter that stays where it is.
    fn still_filter(self, hz: f64, damping: f32) -> Filter {
        let octaves = self.octaves(hz);
        Filter { octaves, sweep: 0.0, rate: 0.0, lfo_increment: 0, lfo_phase: 0, lfo_depth: 0.0, damping }
    }

    /// Returns a filter that starts `sweep` octaves away, halves that distance every `half_s` seconds, and moves with
    /// `lfo`.
    fn moving(self, still: Filter, [sweep, half_s]: [f64; 2], lfo: Lfo) -> Filter {
        Filter {
            sweep: sweep as f32,
            rate: self.fall(half_s),
            lfo_increment: self.lfo(lfo.hz),
            lfo_phase: lfo.phase,
            lfo_depth: lfo.depth,
            ..still
        }
    }

    fn octaves(self, hz: f64) -> f32 {
        (hz / self.rate()).log2().clamp(-14.0, 0.0) as f32
    }

    /// Returns a fall to half in `seconds`.
    fn fall(self, seconds: f64) -> f32 {
        (1.0 / (seconds * self.rate())).min(1.0) as f32
    }

    fn lfo(self, hz: f64) -> u32 {
        (hz / self.rate() * 2f64.powi(32)) as u32
    }
}

/// Returns the voice of a note.
pub fn voice(instrument: Instrument, pitch: Pitch, touch: Touch) -> Voice {
    let (source, envelope, level) = match instrument {
        Instrument::Pad => pad(pitch, touch),
        Instrument::Lead => lead(pitch, touch),
        Instrument::Pluck => pluck(pitch),
        Instrument::Bass => bass(pitch),
        Instrument::Kick => kick(pitch),
        Instrument::Hat => hat(pitch, touch),
        Instrument::Swell => swell(pitch, touch),
    };
    // Equal power; loudness follows the square of velocity.
    let angle = (f64::from(touch.pan) + 1.0) * FRAC_PI_4;
    let level = level * f64::from(touch.velocity).powi(2);
    Voice { source, envelope, gain: [(level * angle.cos()) as f32, (level * angle.sin()) as f32].map(|x| x.max(0.0)) }
}

/// Returns the seed of the note that has this name.
pub fn seed(note: u64) -> u32 {
    (note.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A slow oscillator that moves a filter, in octaves.
#[derive(Clone, Copy)]
struct Lfo {
    hz: f64,
    phase: u32,
    depth: f32,
}

type Parts = (Source, Envelope, f64);

fn pad(pitch: Pitch, touch: Touch) -> Parts {
    let [increment, saw_increment] = pitch.increments(Instrument::Pad);
    // Half of the key's way: low pads stay soft, high ones do not drown.
    let still = pitch.still_filter(1200.0 * (pitch.hz() / 261.6).sqrt(), 1.25);
    let lfo = Lfo { hz: 0.5, phase: touch.seed, depth: 0.35 };
    let filter = pitch.moving(still, [-1.5, 0.5], lfo);
    let envelope = pitch.envelope([(2.5, 2.0), (3.0, 4.0), (3.0, 7.0)], 0.75);
    (Source::Tone(Tone { increment, saw_increment, sine: 0.5, saw: 0.5, filter }), envelope, 0.32)
}

fn lead(pitch: Pitch, touch: Touch) -> Parts {
    let [increment, saw_increment] = pitch.increments(Instrument::Lead);
    let still = pitch.still_filter(2500.0 + pitch.hz(), 1.2);
    let lfo = Lfo { hz: 4.5, phase: touch.seed, depth: 0.1 };
    let filter = pitch.moving(still, [1.0, 0.15], lfo);
    let envelope = pitch.envelope([(0.02, 1.5), (0.5, 4.0), (0.4, 7.0)], 0.7);
    (Source::Tone(Tone { increment, saw_increment, sine: 0.8, saw: 0.2, filter }), envelope, 0.3)
}

fn pluck(pitch: Pitch) -> Parts {
    let [increment, _] = pitch.increments(Instrument::Pluck);
    let levels = std::array::from_fn(|k| 0.5 / ((k + 1) as f32).powf(1.3));
    // Higher strings and higher partials die sooner.
    let rates: [f32; N_PARTIALS] =
        std::array::from_fn(|k| pitch.fall(0.5 * (261.6 / pitch.hz()).sqrt().clamp(0.2, 3.0) / (k + 1) as f64));
    let envelope = pitch.envelope([(0.003, 1.0), (4.0, 6.0), (0.25, 7.0)], 0.0);
    (Source::Partials(Partials { increment, levels, rates }), envelope, 0.5)
}

fn bass(pitch: Pitch) -> Parts {
    let [increment, saw_increment] = pitch.increments(Instrument::Bass);
    let filter = Filter { sweep: 2.0, rate: pitch.fall(0.08), ..pitch.still_filter(4.0 * pitch.hz(), 1.1) };
    let envelope = pitch.envelope([(0.008, 1.0), (0.6, 4.0), (0.15, 6.0)], 0.6);
    (Source::Tone(Tone { increment, saw_increment, sine: 0.7, saw: 0.4, filter }), envelope, 0.45)
}

fn kick(pitch: Pitch) -> Parts {
    /// Halves of the fall per second.
    const HALVES: f64 = 30.0;
    let low = 40.0 * ((f64::from(pitch.key.min(48)) - 36.0) / 12.0).exp2();
    // Below half a turn in a tick at any rate.
    let high = (3.75 * low).min(pitch.rate() / 70.0);
    let low = low.min(high);
    let drum = Drum {
        increment: (low / pitch.rate() * 2f64.powi(32)) as u32,
        drop: ((high - low) / (HALVES * LN_2)) as f32,
        rate: (HALVES / pitch.rate()) as f32,
    };
    let envelope = pitch.envelope([(0.002, 1.0), (0.4, 7.0), (0.05, 6.0)], 0.0);
    (Source::Drum(drum), envelope, 0.7)
}

fn hat(pitch: Pitch, touch: Touch) -> Parts {
    const OPEN: u8 = 46;
    const DAMPING: f32 = 1.0;
    let filter = pitch.still_filter(7000.0, DAMPING);
    let envelope = pitch.envelope([(0.001, 1.0), (if pitch.key == OPEN { 0.45 } else { 0.09 }, 8.0), (0.02, 6.0)], 0.0);
    (Source::Noise(Noise { seed: touch.seed, filter, mix: [1.0, -DAMPING, -1.0] }), envelope, 0.22)
}

fn swell(pitch: Pitch, touch: Touch) -> Parts {
    let still = pitch.still_filter(500.0 * (pitch.hz() / 261.6).sqrt(), 1.0);
    let lfo = Lfo { hz: 0.2, phase: touch.seed, depth: 0.8 };
    let filter = pitch.moving(still, [-2.0, 1.0], lfo);
    let envelope = pitch.envelope([(2.0, 0.5), (1.0, 3.0), (2.5, 6.0)], 0.8);
    (Source::Noise(Noise { seed: touch.seed, filter, mix: [0.0, 0.7, 0.5] }), envelope, 0.35)
}
