//! A line over the chords: 70 % chord tones, 25 % other tones of the scale, 5 % neither, along a contour.

use super::harmony::Chord;
use super::mode::Mode;
use super::random::Random;

/// The range of the line.
const RANGE: [u8; 2] = [64, 86];
/// Chord tones, tones of the scale, others; in percent.
pub(super) const CLASSES: [u32; 3] = [70, 25, 5];

/// The shape of a phrase.
#[derive(Debug, Clone, Copy)]
enum Contour {
    Arch,
    Valley,
    Wave,
}

#[derive(Debug, Clone)]
pub(super) struct Melody {
    mode: Mode,
    tonic: u8,
    contour: Contour,
    last: u8,
}

impl Melody {
    pub(super) fn new(mode: Mode, tonic: u8) -> Self {
        Self { mode, tonic, contour: Contour::Arch, last: 74 }
    }

    /// Chooses the shape of the phrase that begins.
    pub(super) fn begin(&mut self, random: &mut Random) {
        self.contour = random.pick(&[Contour::Arch, Contour::Valley, Contour::Wave]);
    }

    /// Returns the next key, `place` thousandths into the phrase. The class is drawn first, then a key of this class
    /// near the last key and the contour.
    pub(super) fn next(&mut self, random: &mut Random, chord: &Chord, place: u32) -> u8 {
        let class = random.weighted(&CLASSES);
        let height = i32::from(RANGE[0]) + i32::from(RANGE[1] - RANGE[0]) * self.contour.height(place) / 1000;
        let mut best = (i32::MAX, self.last);
        for key in RANGE[0]..=RANGE[1] {
            if self.class(chord, key) != class {
                continue;
            }
            let leap = i32::from(key.abs_diff(self.last));
            // Steps are cheap, a repetition and a leap are not.
            let motion = match leap {
                0 => 7,
                1..=2 => 0,
                3..=4 => 4,
                leap => 2 * leap,
            };
            let cost = motion + (i32::from(key) - height).abs() + random.below(8) as i32;
            if cost < best.0 {
                best = (cost, key);
            }
        }
        self.last = best.1;
        self.last
    }

    /// Returns the place of `key` in [`CLASSES`].
    pub(super) fn class(&self, chord: &Chord, key: u8) -> usize {
        let above_tonic = (key + 12 - self.tonic) % 12;
        if chord.classes.contains(&(key % 12)) {
            0
        } else if self.mode.scale().contains(&above_tonic) {
            1
        } else {
            2
        }
    }
}

impl Contour {
    /// Returns 0 to 1000, at `place` thousandths: parabolas, for which integers are enough.
    fn height(self, place: u32) -> i32 {
        let place = place.min(1000) as i32;
        let arch = |x: i32| 4 * x * (1000 - x) / 1000;
        match self {
            Self::Arch => 200 + arch(place) * 7 / 10,
            Self::Valley => 900 - arch(place) * 7 / 10,
            Self::Wave if place < 500 => 500 + arch(2 * place) * 4 / 10,
            Self::Wave => 500 - arch(2 * place - 1000) * 4 / 10,
        }
    }
}
