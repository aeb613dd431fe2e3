//! One voice in f64, straight from the contract: no vectors, no groups, no tables except the step's
//! own integral.

use super::sound::{Envelope, Filter, N_PARTIALS, Segment, Source, Voice};
use super::step::{REACH, exact};
use super::{Control, TICK};

/// The onset of a voice, and its release, if any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) onset: u64,
    pub(super) release: Option<u64>,
    pub(super) control: Control,
}

/// Returns the first `len` samples, left and right, unrounded.
pub(super) fn render(voice: &Voice, life: Life, len: usize) -> [Vec<f64>; 2] {
    let mut level = Level::new(voice.envelope, life.onset);
    let mut state = [0.0; 2];
    let mut out = [vec![0.0; len], vec![0.0; len]];
    for now in life.onset..len as u64 {
        if life.release == Some(now) {
            level.release(now);
        }
        let Some(envelope) = level.next(now) else { break };
        let age = now - life.onset;
        let line = Line { now, onset: life.onset };
        let sample = match &voice.source {
            Source::Tone(tone) => {
                let sine = (tau(tone.increment, age)).sin() * f64::from(tone.sine);
                let saw = saw(tone.saw_increment, age) * f64::from(tone.saw);
                svf(&mut state, line, &tone.filter, life.control, sine + saw)[2]
            }
            Source::Partials(partials) => (0..N_PARTIALS)
                .filter(|&k| (k + 1) as f64 * turns(partials.increment) <= 0.47)
                .map(|k| {
                    let rate = f64::from(partials.rates[k]);
                    let level = line.at(|age| f64::from(partials.levels[k]) * (-rate * age).exp2());
                    level * ((k + 1) as f64 * tau(partials.increment, age)).sin()
                })
                .sum(),
            Source::Drum(drum) => {
                let steady = f64::from(drum.increment) * 2f64.powi(-32);
                let turns =
                    |age: f64| steady * age + f64::from(drum.drop) * (1.0 - (-f64::from(drum.rate) * age).exp2());
                (line.at(turns) * std::f64::consts::TAU).sin()
            }
            Source::Noise(noise) => {
                let input = white(noise.seed.wrapping_add(age as u32));
                let outputs = svf(&mut state, line, &noise.filter, life.control, input);
                outputs.iter().zip(noise.mix).map(|(output, level)| output * f64::from(level)).sum()
            }
        };
        for (side, gain) in out.iter_mut().zip(voice.gain) {
            side[now as usize] = (sample * envelope).clamp(-3.9, 3.9) * f64::from(gain);
        }
    }
    out
}

fn turns(increment: u64) -> f64 {
    increment as f64 * 2f64.powi(-64)
}

fn tau(increment: u64, age: u64) -> f64 {
    increment.wrapping_mul(age) as f64 * 2f64.powi(-64) * std::f64::consts::TAU
}

fn saw(increment: u64, age: u64) -> f64 {
    let phase = (1u64 << 63).wrapping_add(increment.wrapping_mul(age)) as i64 as f64 * 2f64.powi(-64);
    let period = (1.0 / turns(increment)).max(REACH);
    let distance = phase.abs() * period;
    2.0 * phase - phase.signum() * (exact(distance) + 1.0 - exact(period - distance))
}

fn white(number: u32) -> f64 {
    let x = (number ^ number >> 16).wrapping_mul(0x7feb_352d);
    let x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    f64::from((x ^ x >> 16) as i32) * 2f64.powi(-31)
}

/// Returns the input, the band-pass and the low-pass.
fn svf(state: &mut [f64; 2], line: Line, filter: &Filter, control: Control, input: f64) -> [f64; 3] {
    let coefficient = |which: usize| {
        line.at(|age| {
            let lfo = filter.lfo_phase.wrapping_add(filter.lfo_increment.wrapping_mul(age as u32));
            let wave = (f64::from(lfo as i32) * 2f64.powi(-32) * std::f64::consts::TAU).cos();
            let octaves = f64::from(filter.octaves)
                + f64::from(control.brightness)
                + f64::from(filter.sweep) * (-f64::from(filter.rate) * age).exp2()
                + f64::from(control.motion) * f64::from(filter.lfo_depth) * wave;
            let cycles = octaves.max(-14.0).exp2().min(0.45);
            let g = (std::f64::consts::PI * cycles).tan();
            let a1 = 1.0 / (1.0 + g * (g + f64::from(filter.damping)));
            [a1, g * a1, g * g * a1][which]
        })
    };
    let [a1, a2, a3] = [0, 1, 2].map(coefficient);
    let v3 = input - state[1];
    let v1 = a1 * state[0] + a2 * v3;
    let v2 = state[1] + a2 * state[0] + a3 * v3;
    *state = [2.0 * v1 - state[0], 2.0 * v2 - state[1]];
    [input, v1, v2]
}

/// The line of the tick around `now`, which begins with the tick or the voice.
#[derive(Clone, Copy)]
struct Line {
    now: u64,
    onset: u64,
}

impl Line {
    fn at(self, value: impl Fn(f64) -> f64) -> f64 {
        let tick = TICK as u64;
        let first = (self.now / tick * tick).max(self.onset);
        let last = (self.now / tick + 1) * tick;
        between(self.now, [first, last], [value((first - self.onset) as f64), value((last - self.onset) as f64)])
    }
}

fn between(now: u64, [first, last]: [u64; 2], [start, end]: [f64; 2]) -> f64 {
    start + (end - start) * (now - first) as f64 / (last - first) as f64
}

struct Level {
    envelope: Envelope,
    /// Segments with their first sample, start and end; the last one ends the voice if it ends at
    /// 0.
    now: (u64, Segment, f64, f64),
    line: ([u64; 2], [f64; 2]),
    stage: u32,
}

impl Level {
    fn new(envelope: Envelope, onset: u64) -> Self {
        let now = (onset, envelope.attack, 0.0, 1.0);
        Self { envelope, now, line: ([onset; 2], [0.0; 2]), stage: 0 }
    }

    fn release(&mut self, now: u64) {
        if self.stage < 3 {
            let level = if self.line.0[1] > now { between(now, self.line.0, self.line.1) } else { self.value(now) };
            self.set(3, (now, self.envelope.release, level, 0.0));
        }
    }

    fn set(&mut self, stage: u32, segment: (u64, Segment, f64, f64)) {
        self.stage = stage;
        self.now = segment;
        self.line = ([segment.0; 2], [segment.2; 2]);
    }

    fn end(&self) -> u64 {
        if self.stage == 2 { u64::MAX } else { self.now.0 + u64::from(self.now.1.samples) }
    }

    fn value(&self, at: u64) -> f64 {
        let (first, segment, start, end) = self.now;
        if self.stage == 2 {
            return end;
        }
        let curve = f64::from(segment.curve);
        let x = (at - first) as f64 / f64::from(segment.samples);
        end + (start - end) * ((-curve * x).exp2() - (-curve).exp2()) / (1.0 - (-curve).exp2())
    }

    /// Returns the level at `now`, or `None` once the voice has ended.
    fn next(&mut self, now: u64) -> Option<f64> {
        let Envelope { decay, sustain, .. } = self.envelope;
        let sustain = f64::from(sustain);
        if now == self.end() {
            match self.stage {
                0 => self.set(if sustain == 0.0 { 3 } else { 1 }, (now, decay, 1.0, sustain)),
                1 => self.set(2, (now, decay, sustain, sustain)),
                _ => return None,
            }
        }
        if now == self.line.0[1] {
            let tick = TICK as u64;
            let last = ((now / tick + 1) * tick).min(self.end());
            let start = if self.now.0 == now { self.now.2 } else { self.value(now) };
            self.line = ([now, last], [start, self.value(last)]);
        }
        Some(between(now, self.line.0, self.line.1))
    }
}
