//! What a search looks for: the fastest engine by one of its times, or the smallest.

use serde::{Deserialize, Serialize};

use super::measure::{Measured, Outcome};
use crate::config::Profile;
use crate::text::word::words;

/// What the best engine is best at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Objective {
    /// The median time of a run.
    #[default]
    P50,
    /// The 99th percentile of the time of a run.
    P99,
    /// The peak memory of its process.
    Memory,
    /// The time from the file to the first result.
    First,
}

words!(Objective, "objective", { P50 => "p50", P99 => "p99", Memory => "memory", First => "first" });

impl Objective {
    /// Returns the objective that was asked for, else that of the profile: `training` takes the
    /// least memory, others the lowest median.
    pub fn of(profile: Profile, asked: Option<Self>) -> Self {
        asked.unwrap_or(match profile {
            Profile::Training => Self::Memory,
            Profile::Emergency | Profile::Field => Self::P50,
        })
    }

    /// Returns the figure that counts, lower being better: seconds or bytes. Unknown memory comes
    /// last.
    pub(super) fn figure(self, outcome: &Outcome) -> f64 {
        match self {
            Self::P50 => outcome.latency_seconds.p50,
            Self::P99 => outcome.latency_seconds.p99,
            Self::Memory => outcome.peak_bytes.map_or(f64::INFINITY, |bytes| bytes as f64),
            Self::First => outcome.first_result_seconds(),
        }
    }

    /// Returns by how much the figures of two measurements may differ by chance: the distance to the
    /// next percentile, or a tenth of a figure that is measured once.
    pub(super) fn spread(self, outcome: &Outcome) -> f64 {
        let latency = &outcome.latency_seconds;
        match self {
            Self::P50 => latency.p90 - latency.p50,
            Self::P99 => latency.p99 - latency.p90,
            Self::Memory | Self::First => 0.1 * self.figure(outcome),
        }
    }

    /// Returns whether the figures differ by more than the spread of either.
    pub(super) fn differ(self, [a, b]: [&Outcome; 2]) -> bool {
        (self.figure(a) - self.figure(b)).abs() > self.spread(a).max(self.spread(b))
    }

    /// Describes the search in a sentence about its result.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::P50 => "searched for the lowest median",
            Self::P99 => "searched for the lowest p99",
            Self::Memory => "searched for the least memory",
            Self::First => "searched for the earliest first result",
        }
    }
}

impl Measured {
    /// Returns the median latency, if the candidate can be chosen.
    pub fn p50(&self) -> Option<f64> {
        self.figure(Objective::P50)
    }

    /// Returns the figure that `objective` compares, if the candidate can be chosen.
    pub(super) fn figure(&self, objective: Objective) -> Option<f64> {
        self.outcome.filter(|_| self.refused.is_none()).map(|outcome| objective.figure(&outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::search::{Accuracy, Latency};

    fn outcome([p50, p90, p99]: [f64; 3]) -> Outcome {
        Outcome {
            load_seconds: 0.25,
            first_seconds: 0.5,
            latency_seconds: Latency { min: p50, p50, p90, p99, runs: 20 },
            peak_bytes: Some(4 << 20),
            accuracy: Accuracy::EXACT,
        }
    }

    #[test]
    fn each_objective_has_its_figure() {
        let one = outcome([1.0, 2.0, 4.0]);
        let figures = Objective::ALL.iter().map(|objective| objective.figure(&one)).collect::<Vec<_>>();
        assert_eq!(figures, [1.0, 4.0, f64::from(4 << 20), 0.75]);
        assert!(Objective::Memory.figure(&Outcome { peak_bytes: None, ..one }).is_infinite());
    }

    #[test]
    fn figures_differ_beyond_the_spread_of_either() {
        let (steady, noisy) = (outcome([1.0, 1.01, 1.02]), outcome([1.1, 1.4, 1.5]));
        assert!(!Objective::P50.differ([&steady, &noisy]) && !Objective::P50.differ([&noisy, &steady]));
        assert!(Objective::P99.differ([&steady, &noisy]));
        assert!(Objective::P50.differ([&steady, &outcome([1.1, 1.11, 1.12])]));
        let more = |bytes| Outcome { peak_bytes: Some(bytes), ..steady };
        assert!(!Objective::Memory.differ([&steady, &more(4_300_000)]));
        assert!(Objective::Memory.differ([&steady, &more(5_000_000)]));
    }

    #[test]
    fn the_profile_decides_unless_an_objective_is_asked_for() {
        assert_eq!(Objective::of(Profile::Training, None), Objective::Memory);
        assert_eq!(Objective::of(Profile::Training, Some(Objective::P50)), Objective::P50);
        assert_eq!(Objective::of(Profile::Emergency, None), Objective::P50);
        assert_eq!("first".parse::<Objective>().unwrap(), Objective::First);
    }
}
