//! How many streams a device keeps at real-time pace, measured on the engine that will serve them.
//!
//! A round measures steps of 1, 2, 4, ... streams; rounds follow until their results agree, see [`Rounds`]. The result
//! is cached and compared at the next start, see [`cache`]. The texts of a voice model count as streams.

mod cache;
mod rounds;

use std::time::Duration;
use std::{fmt, iter};

use melisma::snac::Config;
use melisma::text::count;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use cache::Cache;
pub(crate) use rounds::Round;
pub(super) use rounds::Rounds;

/// The share of the time that steps may take; the rest is for parsing, sending, and steps that take longer than those
/// measured: at 0.73 one start in three admitted more streams than two shared CPUs could keep.
const SHARE: f64 = 0.62;
/// A step is shorter than this if more than one frame fits into it, so that a frame that has just
/// arrived does not wait long for the step before it.
const STEP: Duration = Duration::from_millis(10);

/// Capacity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Streams at real-time pace, or one that is slower.
    pub streams: usize,
    /// Frames of a step, of all streams together.
    pub step_frames: usize,
}

/// A capacity that was measured in rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The result of all rounds together.
    pub capacity: Capacity,
    /// How many there were.
    pub n_rounds: usize,
    /// The standard error of the streams, as a share of them.
    pub error: f64,
}

/// Where a capacity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// This process measured it.
    Measured,
    /// An earlier process measured it better.
    Cached,
    /// The user chose it.
    Pinned,
}

/// A capacity and its foundation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapacityReport {
    /// The capacity.
    pub capacity: Capacity,
    /// Where it comes from.
    pub source: Source,
    /// What this process measured, if it did.
    pub measured: Option<Measurement>,
}

/// `31 streams`, and how they differ from those measured.
impl fmt::Display for CapacityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&count(self.capacity.streams as u64, "stream"))?;
        let measured = self.measured.map(|measured| measured.capacity.streams);
        match (self.source, measured.filter(|streams| *streams != self.capacity.streams)) {
            (Source::Measured, _) | (_, None) => Ok(()),
            (Source::Cached, Some(streams)) => write!(f, ", as measured before ({streams} now)"),
            (Source::Pinned, Some(streams)) => write!(f, ", as set ({streams} measured)"),
        }
    }
}

impl From<Measurement> for CapacityReport {
    fn from(measured: Measurement) -> Self {
        Self { capacity: measured.capacity, source: Source::Measured, measured: Some(measured) }
    }
}

impl CapacityReport {
    /// Creates the report of a capacity that the user chose.
    pub fn pinned(capacity: Capacity) -> Self {
        Self { capacity, source: Source::Pinned, measured: None }
    }

    /// Returns `{"streams", "source", "measured_streams", "rounds", "error"}`.
    pub fn json(&self) -> Value {
        let source = match self.source {
            Source::Measured => "measured",
            Source::Cached => "cached",
            Source::Pinned => "pinned",
        };
        let Self { capacity, measured, .. } = self;
        json!({
            "streams": capacity.streams,
            "source": source,
            "measured_streams": measured.map(|measured| measured.capacity.streams),
            "rounds": measured.map(|measured| measured.n_rounds),
            "error": measured.map(|measured| measured.error),
        })
    }
}

/// Returns the time that one frame plays.
pub fn period(config: &Config) -> Duration {
    Duration::from_secs_f64(config.frame_len() as f64 / f64::from(config.sampling_rate))
}

/// Steps of some numbers of streams, and the time that each takes.
type Curve = [(usize, Duration)];

/// Returns the frames of a step of at most [`STEP`].
fn step_frames(curve: &Curve, max_frames: usize) -> usize {
    (largest(curve, STEP) as usize).clamp(1, max_frames)
}

/// Returns the streams whose steps of `step_frames` frames, one after the other, take at most `limit`.
fn sustained(curve: &Curve, step_frames: usize, limit: Duration) -> f64 {
    let at_once = largest(curve, limit);
    let whole = time(curve, step_frames).map(|time| (step_frames, time));
    let steps = curve.iter().copied().filter(|(n, _)| *n < step_frames).chain(whole);
    let rate = steps.map(|(n, time)| n as f64 / time.as_secs_f64());
    let one_by_one = rate.fold(0.0, f64::max) * limit.as_secs_f64();
    at_once.min(one_by_one)
}

/// Returns the time of a step of `n` frames, between the measured numbers by a straight line: a number that was not
/// measured would count as the next lower one, up to half of it, and one frame more or less halve the result.
fn time(curve: &Curve, n: usize) -> Option<Duration> {
    let after = curve.iter().position(|(measured, _)| *measured >= n)?;
    let (n1, t1) = curve[after];
    if n1 == n {
        return Some(t1);
    }
    let (n0, t0) = *curve.get(after.checked_sub(1)?)?;
    let share = (n - n0) as f64 / (n1 - n0) as f64;
    Some(t0 + t1.saturating_sub(t0).mul_f64(share))
}

/// Returns the largest number of streams whose step takes at most `limit`, between the measured numbers by
/// a straight line from zero: a device too slow for one stream has a part of it, on which rounds can agree.
pub(crate) fn largest(curve: &Curve, limit: Duration) -> f64 {
    let curve: Vec<_> = iter::once((0, Duration::ZERO)).chain(curve.iter().copied()).collect();
    for pair in curve.windows(2) {
        let [(n0, t0), (n1, t1)] = [pair[0], pair[1]].map(|(n, time)| (n as f64, time.as_secs_f64()));
        let limit = limit.as_secs_f64();
        if t0 <= limit && t1 > limit {
            return n0 + (n1 - n0) * (limit - t0) / (t1 - t0);
        }
    }
    curve.iter().rfind(|(_, time)| *time <= limit).map_or(0.0, |(n, _)| *n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_limit_lies_between_measured_steps() {
        let curve = [(1, ms(4)), (2, ms(6)), (4, ms(10)), (8, ms(18))];
        assert_eq!(largest(&curve, ms(14)) as usize, 6);
        assert_eq!(largest(&curve, ms(100)) as usize, 8);
        assert_eq!((largest(&curve, ms(3)), largest(&[], ms(3))), (0.75, 0.0));
        assert_eq!(largest(&curve[..1], ms(4)) as usize, 1);
    }

    #[test]
    fn short_steps_carry_fewer_streams_than_one_long_one() {
        let curve = [(1, ms(4)), (2, ms(6)), (4, ms(10)), (8, ms(18)), (16, ms(34)), (32, ms(66))];
        assert_eq!(largest(&curve, ms(60)) as usize, 29);
        assert_eq!(sustained(&curve, 4, ms(60)) as usize, 24);
        assert_eq!(sustained(&curve, 1, ms(60)) as usize, 15);
        assert_eq!(sustained(&curve, 32, ms(3)) as usize, 0);
    }

    #[test]
    fn one_frame_of_a_step_more_or_less_changes_little() {
        let curve = [(1, ms(4)), (2, ms(6)), (4, ms(10)), (8, ms(18)), (16, ms(34)), (32, ms(66))];
        let found: Vec<f64> = (2..=9).map(|step_frames| sustained(&curve, step_frames, ms(60))).collect();
        for pair in found.windows(2) {
            assert!(pair[1] >= pair[0] && pair[1] < 1.13 * pair[0], "{found:?}");
        }
        assert_eq!((time(&curve, 3), time(&curve, 32), time(&curve, 33)), (Some(ms(8)), Some(ms(66)), None));
    }

    #[test]
    fn a_frame_of_the_24_khz_model_plays_85_ms() {
        let period = period(&Config::snac_24khz());
        assert_eq!(period.as_micros(), 85_333);
    }
}
