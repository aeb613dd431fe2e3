//! Scales and the chords on their degrees.

use serde::{Deserialize, Serialize};

/// A seven-note scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// Natural minor.
    #[serde(alias = "minor")]
    Aeolian,
    /// Minor with a major sixth.
    Dorian,
    /// Major with a raised fourth.
    Lydian,
    /// Minor with a lowered second.
    Phrygian,
}

/// Notes that are stacked on a degree, as steps of the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Colour {
    Triad,
    Seventh,
    Ninth,
    Second,
    Fourth,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Aeolian, Self::Dorian, Self::Lydian, Self::Phrygian];

    /// Returns the mode called `name`; `minor` is aeolian.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = if name == "minor" { Self::Aeolian.name() } else { name };
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aeolian => "aeolian",
            Self::Dorian => "dorian",
            Self::Lydian => "lydian",
            Self::Phrygian => "phrygian",
        }
    }

    /// Returns the semitones above the tonic.
    pub fn scale(self) -> [u8; 7] {
        match self {
            Self::Aeolian => [0, 2, 3, 5, 7, 8, 10],
            Self::Dorian => [0, 2, 3, 5, 7, 9, 10],
            Self::Lydian => [0, 2, 4, 6, 7, 9, 11],
            Self::Phrygian => [0, 1, 3, 5, 7, 8, 10],
        }
    }

    /// Returns how often degree `to` follows degree `from`, in percent: `[from][to]`. Degrees with a diminished triad
    /// do not appear, and a chord does not follow itself.
    pub fn transitions(self) -> [[u32; 7]; 7] {
        match self {
            // i ii° III iv v VI VII
            Self::Aeolian => [
                [0, 0, 15, 25, 10, 30, 20],
                [100, 0, 0, 0, 0, 0, 0],
                [10, 0, 0, 25, 5, 35, 25],
                [35, 0, 10, 0, 20, 15, 20],
                [45, 0, 5, 20, 0, 30, 0],
                [20, 0, 25, 20, 5, 0, 30],
                [45, 0, 20, 10, 0, 25, 0],
            ],
            // i ii III IV v vi° VII
            Self::Dorian => [
                [0, 15, 15, 35, 10, 0, 25],
                [35, 0, 15, 25, 15, 0, 10],
                [20, 20, 0, 35, 0, 0, 25],
                [45, 10, 15, 0, 10, 0, 20],
                [40, 15, 10, 25, 0, 0, 10],
                [100, 0, 0, 0, 0, 0, 0],
                [40, 5, 20, 35, 0, 0, 0],
            ],
            // I II iii iv° V vi vii
            Self::Lydian => [
                [0, 40, 15, 0, 20, 20, 5],
                [45, 0, 15, 0, 15, 15, 10],
                [15, 25, 0, 0, 15, 40, 5],
                [100, 0, 0, 0, 0, 0, 0],
                [45, 20, 10, 0, 0, 25, 0],
                [20, 35, 20, 0, 20, 0, 5],
                [35, 0, 40, 0, 0, 25, 0],
            ],
            // i II III iv v° VI vii
            Self::Phrygian => [
                [0, 40, 10, 20, 0, 15, 15],
                [50, 0, 15, 10, 0, 10, 15],
                [20, 30, 0, 20, 0, 30, 0],
                [40, 15, 10, 0, 0, 20, 15],
                [100, 0, 0, 0, 0, 0, 0],
                [20, 25, 25, 20, 0, 0, 10],
                [50, 20, 10, 10, 0, 10, 0],
            ],
        }
    }

    /// Returns the semitones of step `step` of the scale above the tonic; steps go on beyond the octave.
    pub(super) fn semitones(self, step: usize) -> u8 {
        self.scale()[step % 7] + 12 * (step / 7) as u8
    }
}

impl Colour {
    pub(super) const ALL: [Self; 5] = [Self::Triad, Self::Seventh, Self::Ninth, Self::Second, Self::Fourth];

    /// Returns steps above the chord's root, the root first; four, so that all chords have as many
    /// voices.
    pub(super) fn steps(self) -> [usize; 4] {
        match self {
            Self::Triad => [0, 2, 4, 7],
            Self::Seventh => [0, 2, 4, 6],
            Self::Ninth => [0, 2, 4, 8],
            Self::Second => [0, 1, 4, 7],
            Self::Fourth => [0, 3, 4, 7],
        }
    }
}
