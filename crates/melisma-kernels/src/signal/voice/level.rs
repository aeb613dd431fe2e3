//! A whole envelope in closed form, for devices that start anywhere in it.

use bytemuck::{Pod, Zeroable};

use super::TICK;
use super::sound::{Envelope, Segment};

/// Attack, decay, sustain, release.
pub(super) const N_PARTS: usize = 4;

/// From the age `first` on, the level is base + scale 2^(-rate (age - first)).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Part {
    first: u32,
    /// Its own end; a release may come earlier.
    last: u32,
    base: f32,
    scale: f32,
    rate: f32,
}

/// Parts, and the age at which the voice ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) parts: [Part; N_PARTS],
    pub(super) n_parts: u32,
    pub(super) end: u32,
}

/// The longest life: ages stay below 2^31.
const LONGEST: u64 = (1 << 31) - (1 << 25);

impl Life {
    fn push(&mut self, part: Part) {
        self.parts[self.n_parts as usize] = part;
        self.n_parts += 1;
    }
}

fn part(first: u64, segment: Segment, [start, end]: [f64; 2]) -> Part {
    let last = (-f64::from(segment.curve)).exp2();
    let scale = (start - end) / (1.0 - last);
    let base = (end - scale * last) as f32;
    let last = (first + u64::from(segment.samples)) as u32;
    Part { first: first as u32, last, base, scale: scale as f32, rate: segment.curve / segment.samples as f32 }
}

/// Returns the life of a voice that begins at sample `onset` and is released at sample `release`,
/// if any.
pub(super) fn parts(envelope: Envelope, onset: u64, release: Option<u64>) -> Life {
    let Envelope { attack, decay, sustain, release: fall } = envelope;
    let sustain_level = f64::from(sustain);
    let turns = [0, u64::from(attack.samples), u64::from(attack.samples) + u64::from(decay.samples)];
    let all = [
        part(turns[0], attack, [0.0, 1.0]),
        part(turns[1], decay, [1.0, sustain_level]),
        Part { first: turns[2] as u32, last: u32::MAX, base: sustain, scale: 0.0, rate: 0.0 },
    ];
    let released = release.map(|release| release.saturating_sub(onset).min(LONGEST));
    let own_end = if sustain == 0.0 { turns[2] } else { LONGEST };
    let mut life = Life { parts: [Part::default(); N_PARTS], n_parts: 0, end: own_end as u32 };
    let until = released.unwrap_or(own_end).min(own_end);
    for (index, part) in all.into_iter().enumerate() {
        if turns[index] < until || index == 0 {
            life.push(part);
        }
    }
    // A voice that ends with its decay is already fading out.
    if let Some(age) = released.filter(|&age| age < own_end && (sustain > 0.0 || age < turns[1])) {
        let level = level_at(&life, &turns, onset, age);
        if age == 0 {
            life.n_parts = 0;
        }
        life.push(part(age, fall, [level, 0.0]));
        life.end = (age + u64::from(fall.samples)) as u32;
    }
    life
}

/// Returns the level on its line at `age`, inside the last part of `life`.
fn level_at(life: &Life, turns: &[u64; 3], onset: u64, age: u64) -> f64 {
    let tick = TICK as u64;
    let index = life.n_parts as usize - 1;
    let part = life.parts[index];
    let value = |age: u64| {
        let x = (age - u64::from(part.first)) as f64;
        f64::from(part.base) + f64::from(part.scale) * (-f64::from(part.rate) * x).exp2()
    };
    let tick_start = ((onset + age) / tick * tick).saturating_sub(onset);
    let first = tick_start.max(u64::from(part.first));
    let turn = turns.get(index + 1).copied().unwrap_or(u64::MAX);
    let last = ((onset + age) / tick * tick + tick - onset).min(turn);
    value(first) + (value(last) - value(first)) * (age - first) as f64 / (last - first) as f64
}
