//! A score as a MIDI file of format 1: a track with the tempo and the controls, then one for each channel.

use super::program::{drum, program};
use super::{DIVISION, DRUMS, OWN};
use crate::synth::score::{Instrument, Score};
use crate::{Error, Result};

/// The largest number of four bytes.
const MAX_DELTA: u64 = (1 << 28) - 1;
/// The range of pitch bend that is asked for, in semitones.
const RANGE: u8 = 24;
const TEMPO_MAX: f64 = 16_777_215.0;

impl Score {
    /// The bytes of a MIDI file at the score's tempo. Times are rounded to 1/9600 of a beat, velocities and places to MIDI's steps, and
    /// drums have the keys of General MIDI. What [`Score::from_midi`] made of a file that this wrote is written as the same bytes.
    ///
    /// # Errors
    /// Those of [`Score::check`], and more than fifteen pairs of instrument and channel with a pitch.
    pub fn to_midi(&self) -> Result<Vec<u8>> {
        self.check()?;
        let mut tracks = vec![self.conductor()];
        for (instrument, from, to) in self.parts()? {
            tracks.push(self.part(instrument, from, to));
        }
        let mut file = b"MThd\0\0\0\x06\0\x01".to_vec();
        file.extend((tracks.len() as u16).to_be_bytes());
        file.extend(DIVISION.to_be_bytes());
        for track in tracks {
            file.extend(b"MTrk");
            let body = track.bytes();
            file.extend((body.len() as u32).to_be_bytes());
            file.extend(body);
        }
        Ok(file)
    }

    /// Microseconds of a beat.
    fn beat(&self) -> f64 {
        (60e6 / self.tempo).round().clamp(1.0, TEMPO_MAX)
    }

    fn tick(&self, seconds: f64) -> u64 {
        (seconds * 1e6 / self.beat() * f64::from(DIVISION)).round() as u64
    }

    fn conductor(&self) -> Track {
        let mut track = Track::default();
        let [_, a, b, c] = (self.beat() as u32).to_be_bytes();
        track.push(0, 0, &[0xff, 0x51, 3, a, b, c]);
        for control in &self.controls {
            let [a, b, c, d] = control.value.to_be_bytes();
            let [id, mark] = OWN;
            let bytes = [0xff, 0x7f, 7, id, mark, control.parameter as u8, a, b, c, d];
            track.push(self.tick(control.at), 1, &bytes);
        }
        track
    }

    /// Which instrument of which channel goes to which of MIDI's channels; `None` stands for both drums.
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

    fn part(&self, instrument: Option<Instrument>, from: u8, to: u8) -> Track {
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
            track.push(self.tick(bend.at), 1, &[0xe0 | to, (value & 127) as u8, (value >> 7) as u8]);
        }
        let mut pan = 64;
        for note in &self.notes {
            let is_ours = drum(note.instrument).is_none().then_some(note.instrument) == instrument;
            if !is_ours || note.channel != from {
                continue;
            }
            let (start, end) = (self.tick(note.start), self.tick(note.start + note.duration));
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
                // An empty text carries the time on.
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
