//! A walk over the degrees of a mode, with a bass and voices that move little.

use super::mode::{Colour, Mode};
use super::random::Random;

/// The range of the pads.
const PAD_RANGE: [u8; 2] = [52, 77];
/// The range of the bass.
const BASS_LOW: u8 = 31;

/// A chord as it is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chord {
    /// Its degree; 0 is the tonic.
    pub(super) degree: usize,
    /// Its pitch classes, the root first.
    pub(super) classes: [u8; 4],
    /// Its lowest note: the root, or the third above it.
    pub(super) bass: u8,
    /// The pads' keys, rising.
    pub(super) voices: [u8; 4],
}

/// Remembers the last chord.
#[derive(Debug, Clone)]
pub(super) struct Harmony {
    mode: Mode,
    /// Pitch class of the tonic.
    tonic: u8,
    /// Weights of [`Colour::ALL`].
    colours: [u32; 5],
    degree: Option<usize>,
    voices: [u8; 4],
}

impl Harmony {
    pub(super) fn new(mode: Mode, tonic: u8, colours: [u32; 5]) -> Self {
        Self { mode, tonic, colours, degree: None, voices: [57, 60, 64, 67] }
    }

    /// Returns the next chord; the first is on the tonic.
    pub(super) fn next(&mut self, random: &mut Random) -> Chord {
        let degree = match self.degree {
            None => 0,
            Some(last) => random.weighted(&self.mode.transitions()[last]),
        };
        self.degree = Some(degree);
        let colour = Colour::ALL[random.weighted(&self.colours)];
        let class = |step: usize| (self.tonic + self.mode.semitones(degree + step)) % 12;
        let classes = colour.steps().map(class);
        self.voices = lead(self.voices, classes);
        let third = matches!(colour, Colour::Triad | Colour::Seventh) && degree != 0 && random.chance(12);
        let bass = above(BASS_LOW, if third { classes[1] } else { classes[0] });
        Chord { degree, classes, bass, voices: self.voices }
    }
}

/// Returns the keys for `classes` that are nearest to `last`, all different, within the range of the pads. Every
/// placement of the four classes is tried: the smallest sum of movements wins, and seconds in the lower half add to
/// it.
fn lead(last: [u8; 4], classes: [u8; 4]) -> [u8; 4] {
    let mut best = (u32::MAX, last);
    for octaves in 0..16u8 {
        let place = |i: usize| above(PAD_RANGE[0], classes[i]) + 12 * (octaves >> i & 1);
        let mut keys: [u8; 4] = std::array::from_fn(place);
        keys.sort_unstable();
        if keys[3] > PAD_RANGE[1] || keys.windows(2).any(|pair| pair[0] == pair[1]) {
            continue;
        }
        let moved: u32 = keys.iter().zip(last).map(|(&key, last)| u32::from(key.abs_diff(last))).sum();
        let muddy = keys.windows(2).filter(|pair| pair[1] - pair[0] < 3 && pair[0] < 60).count() as u32;
        let cost = moved + 6 * muddy;
        if cost < best.0 {
            best = (cost, keys);
        }
    }
    best.1
}

/// Returns the lowest key of `class` that is not below `low`.
pub(super) fn above(low: u8, class: u8) -> u8 {
    low + (class + 12 - low % 12) % 12
}
