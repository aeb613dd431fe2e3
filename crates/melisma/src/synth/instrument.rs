//! The instruments of the synthesiser.

use serde::{Deserialize, Serialize};

/// A voice of the synthesiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Instrument {
    /// Slow chords: sine and saw, filtered, with motion.
    Pad,
    /// Melody.
    Lead,
    /// A plucked string.
    Pluck,
    /// The lowest part.
    Bass,
    /// A drum: a falling sine.
    Kick,
    /// A cymbal: filtered noise.
    Hat,
    /// A wave of filtered noise.
    Swell,
}

impl Instrument {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [Self::Pad, Self::Lead, Self::Pluck, Self::Bass, Self::Kick, Self::Hat, Self::Swell];

    /// Returns its name in scores and of its stem.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pad => "pad",
            Self::Lead => "lead",
            Self::Pluck => "pluck",
            Self::Bass => "bass",
            Self::Kick => "kick",
            Self::Hat => "hat",
            Self::Swell => "swell",
        }
    }

    /// Returns whether its notes end by themselves and are not released.
    pub fn is_one_shot(self) -> bool {
        matches!(self, Self::Kick | Self::Hat)
    }
}
