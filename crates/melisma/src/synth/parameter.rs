//! Controls that move while music plays.

use serde::{Deserialize, Serialize};

/// A control that can move while music plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Parameter {
    /// Gain of everything, linear, 0 to 1.
    Gain,
    /// Cutoff of the pads' filter as a factor, 0.1 to 10.
    Brightness,
    /// Depth of the pads' slow modulation, 0 to 1.
    Motion,
    /// Share of the reverb in the output, 0 to 1.
    Reverb,
    /// Share of the delay in the output, 0 to 1.
    Delay,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gain, Self::Brightness, Self::Motion, Self::Reverb, Self::Delay];

    /// Returns its name in scores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gain => "gain",
            Self::Brightness => "brightness",
            Self::Motion => "motion",
            Self::Reverb => "reverb",
            Self::Delay => "delay",
        }
    }

    /// Returns the least and the largest value.
    pub fn range(self) -> [f32; 2] {
        match self {
            Self::Brightness => [0.1, 10.0],
            Self::Gain | Self::Motion | Self::Reverb | Self::Delay => [0.0, 1.0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_manual() {
        let ranges = Parameter::ALL.map(|parameter| (parameter.name(), parameter.range()));
        let share = [0.0, 1.0];
        let manual =
            [("gain", share), ("brightness", [0.1, 10.0]), ("motion", share), ("reverb", share), ("delay", share)];
        assert_eq!(ranges, manual);
    }
}
