//! A score as a MIDI file of format 1: a track with the tempo and the controls, then one for each channel.
//!
//! A beat has enough ticks for exact times, as long as the file stays below ten million ticks, the limit of common
//! readers such as pretty_midi.

use super::program::{drum, program};
use super::{DIVISION, DRUMS, OWN};
use crate::synth::instrument::Instrument;
use crate::synth::score::Score;
use crate::{Error, Result};

/// The largest number of four bytes.
const MAX_DELTA: u64 = (1 << 28) - 1;
/// The range of pitch bend that is asked for, in semitones.
const RANGE: u8 = 24;
const TEMPO_MAX: f64 = 16_777_215.0;
/// A file has fewer ticks than this.
const MAX_TICKS: f64 = 1e7;
/// The largest distance from a tick at which a time is the tick's; rounding of floats within a day is far smaller.
const EXACT: f64 = 1e-3;

impl Score {
    /// Returns the bytes of a MIDI file at the score's tempo. Times are rounded to 1/9600 of a beat, or coarser where
    /// the file would pass ten million ticks; velocities and pans are rounded to MIDI's steps, and drums have the
    /// keys of General MIDI. A score that [`Score::from_midi`] read from such a file is written as the same bytes.
    ///
    /// # Errors
    /// Those of [`Score::check`], and more than fifteen pairs of instrument and channel with a pitch.
    pub fn to_midi(&self) -> Result<Vec<u8>> {
        self.check()?;
        let clock = Ticks::of(self);
        let mut tracks = vec![self.conductor(&clock)];
        for (instrument, from, to) in self.parts()? {
            tracks.push(self.part(&clock, instrument, [from, to]));
        }
        let mut file = b"MThd\0\0\0\x06\0\x01".to_vec();
        file.extend((tracks.len() as u16).to_be_bytes());
        file.extend(clock.division.to_be_bytes());
        for track in tracks {
            file.extend(b"MTrk");
            let body = track.bytes();
            file.extend((body.len() as u32).to_be_bytes());
            file.extend(body);
        }
        Ok(file)
    }

    fn conductor(&self, clock: &Ticks) -> Track {
        let mut track = Track::default();
        let [_, a, b, c] = (clock.beat_us as u32).to_be_bytes();
        track.push(0, 0, &[0xff, 0x51, 3, a, b, c]);
        for control in &self.controls {
            let [a, b, c, d] = control.value.to_be_bytes();
            let [id, mark] = OWN;
            let bytes = [0xff, 0x7f, 7, id, mark, control.parameter as u8, a, b, c, d];
            track.push(clock.tick(control.at), 1, &bytes);
        }
        track
    }

    /// Maps (instrument, channel) to a MIDI channel; `None` is the channel of both drums.
    fn parts(&self) -> Result<Vec<(Option<Instrument>, u8, u8)>> {
        let mut parts: Vec<(Option<Instrument>, u8, u8)> = Vec::new();
        for note in &self.notes {
            let pitched = drum(note.instrument).is_none().then_some(note.instrument);
            if parts.iter().any(|&(instrument, from, _)| (instrument, from) == (pitched, note.channel)) {
                continue;
            }
            let is_free = |to: &u8| *to != DRUMS && parts.iter().all(|part| part.2 != *to);
            let to = match pitched {
                None => Some(DRUMS),
                Some(_) => Some(note.channel).filter(is_free).or_else(|| (0..16).find(is_free)),
            };
            let to = to.ok_or_else(|| {
                Error::unsupported("more than 15 pairs of instrument and channel; a MIDI file has 15 channels for them")
                    .with_hint("use fewer channels in the score")
            })?;
            parts.push((pitched, note.channel, to));
        }
        Ok(parts)
    }

    fn part(&self, clock: &Ticks, instrument: Option<Instrument>, [from, to]: [u8; 2]) -> Track {
        let mut track = Track::default();
        if let Some(instrument) = instrument {
            let name = instrument.name().as_bytes();
            track.push(0, 0, &[&[0xff, 0x03, name.len() as u8], name].concat());
            track.push(0, 0, &[0xc0 | to, program(instrument)]);
        }
        let bends = || self.bends.iter().filter(|bend| bend.channel == from);
        if bends().next().is_some() {
            for [number, value] in [[101, 0], [100, 0], [6, RANGE], [38, 0]] {
                track.push(0, 0, &[0xb0 | to, number, value]);
            }
        }
        for bend in bends() {
            let value = (f64::from(bend.semitones) / f64::from(RANGE) * 8192.0).round() as i32 + 8192;
            let value = value.clamp(0, 16_383);
            track.push(clock.tick(bend.at), 1, &[0xe0 | to, (value & 127) as u8, (value >> 7) as u8]);
        }
        let mut pan = 64;
        for note in &self.notes {
            let is_ours = drum(note.instrument).is_none().then_some(note.instrument) == instrument;
            if !is_ours || note.channel != from {
                continue;
            }
            let (start, end) = (clock.tick(note.start), clock.tick(note.start + note.duration));
            let key = drum(note.instrument).unwrap_or(note.key);
            let place = ((note.pan * 63.0).round() as i32 + 64) as u8;
            if place != pan {
                pan = place;
                track.push(start, 3, &[0xb0 | to, 10, pan]);
            }
            let velocity = ((note.velocity * 127.0).round() as u8).max(1);
            track.push(start, 3, &[0x90 | to, key, velocity]);
            track.push(end.max(start + 1), 2, &[0x80 | to, key, 64]);
        }
        track
    }
}

/// Seconds to ticks.
struct Ticks {
    /// Microseconds of a beat.
    beat_us: f64,
    /// Ticks of a beat.
    division: u16,
}

impl Ticks {
    fn of(score: &Score) -> Self {
        let finest = Self { beat_us: (60e6 / score.tempo).round().clamp(1.0, TEMPO_MAX), division: DIVISION };
        let (mut last, mut grid) = (0.0f64, u64::from(DIVISION));
        let notes = score.notes.iter().flat_map(|note| [note.start, note.start + note.duration]);
        let changes = score.bends.iter().map(|bend| bend.at).chain(score.controls.iter().map(|control| control.at));
        for seconds in notes.chain(changes) {
            let ticks = finest.ticks(seconds);
            last = last.max(ticks);
            if (ticks - ticks.round()).abs() < EXACT {
                grid = gcd(grid, ticks.round() as u64);
            }
        }
        // Divisors only, so that a file read back is on the same grid.
        let coarser = || (1..=DIVISION).rev().filter(|division| DIVISION.is_multiple_of(*division));
        let fits = |division: &u16| last / f64::from(DIVISION / division) + 1.0 < MAX_TICKS;
        let is_exact = |division: &u16| grid.is_multiple_of((DIVISION / division).into());
        let division = coarser().filter(fits).find(is_exact).or_else(|| coarser().find(fits)).unwrap_or(1);
        Self { division, ..finest }
    }

    fn ticks(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.beat_us * f64::from(self.division)
    }

    fn tick(&self, seconds: f64) -> u64 {
        self.ticks(seconds).round() as u64
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Messages with their ticks and, among simultaneous ones, their rank.
#[derive(Default)]
struct Track(Vec<(u64, u8, Vec<u8>)>);

impl Track {
    fn push(&mut self, tick: u64, rank: u8, bytes: &[u8]) {
        self.0.push((tick, rank, bytes.to_vec()));
    }

    fn bytes(mut self) -> Vec<u8> {
        self.0.sort_by_key(|&(tick, rank, _)| (tick, rank));
        let mut out = Vec::new();
        let mut now = 0;
        for (tick, _, bytes) in self.0 {
            let mut delta = tick - now;
            while delta > MAX_DELTA {
                number(MAX_DELTA, &mut out);
                // An empty text event advances the time.
                out.extend([0xff, 0x01, 0]);
                delta -= MAX_DELTA;
            }
            number(delta, &mut out);
            out.extend(bytes);
            now = tick;
        }
        out.extend([0, 0xff, 0x2f, 0]);
        out
    }
}

fn number(value: u64, out: &mut Vec<u8>) {
    for shift in [21, 14, 7] {
        if value >> shift > 0 {
            out.push((value >> shift) as u8 & 0x7f | 0x80);
        }
    }
    out.push(value as u8 & 0x7f);
}
