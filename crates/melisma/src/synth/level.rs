//! The gain that gives a piece its loudness.

use super::bus::BusConfig;
use super::engine::Buses;
use super::setup::Setup;
use crate::audio::Meter;
use crate::{Error, Result};

/// The largest gain of a quiet score, in decibels.
pub const MAX_GAIN_DB: f64 = 40.0;
/// The allowed difference from the loudness, in LU.
const NEAR: f64 = 0.05;
/// A piece whose peaks stay this far below the ceiling, in decibels, is not limited.
const FREE: f64 = 0.5;
/// Attempts against the limiter.
const MAX_PASSES: u32 = 4;

/// How a piece is brought to its loudness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// As a factor.
    pub gain: f32,
    /// Whether the limiter reduces peaks at this gain.
    pub is_limited: bool,
}

impl Level {
    /// The level that the piece has by itself.
    pub const UNCHANGED: Self = Self { gain: 1.0, is_limited: false };

    /// Returns the gain in decibels.
    pub fn gain_db(self) -> f64 {
        20.0 * f64::from(self.gain).log10()
    }
}

/// Returns the gain that makes a piece as loud as `target_lufs` behind the limiter; 1 for silence. `listen` plays it
/// to its end with the setup given.
///
/// A piece that stays below the ceiling is played once. Any other loses loudness to the limiter and is played again until
/// the result is right, five times at most.
///
/// # Errors
/// Those of `listen`, and a target that is not from -70 to 0 LUFS.
pub fn balance(setup: Setup, target_lufs: f64, mut listen: impl FnMut(Setup) -> Result<Meter>) -> Result<Level> {
    if !(-70.0..=0.0).contains(&target_lufs) {
        return Err(Error::invalid(format!("a loudness of {target_lufs} LUFS is out of range: -70 to 0"))
            .with_hint("-14 to -23 is usual for music"));
    }
    let mut attempt = |level: f64, ceiling_dbtp: Option<f64>| {
        let bus = BusConfig { level: level as f32, ceiling_dbtp, ..setup.bus };
        listen(Setup { bus, buses: Buses::Mix, ..setup })
    };
    let free = attempt(1.0, None)?;
    let Some(loudness) = free.integrated() else { return Ok(Level::UNCHANGED) };
    let factor = |db: f64| 10f64.powf(db / 20.0);
    let mut gain_db = (target_lufs - loudness).min(MAX_GAIN_DB);
    let ceiling = setup.bus.ceiling_dbtp.filter(|ceiling| free.peak() * factor(gain_db) > factor(ceiling - FREE));
    if let Some(ceiling) = ceiling {
        for _ in 0..MAX_PASSES {
            let Some(found) = attempt(factor(gain_db), Some(ceiling))?.integrated() else { break };
            if (target_lufs - found).abs() < NEAR {
                break;
            }
            gain_db = (gain_db + target_lufs - found).min(MAX_GAIN_DB);
        }
    }
    Ok(Level { gain: factor(gain_db) as f32, is_limited: ceiling.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{BusConfig, Length};

    /// Returns a tone of -23 LUFS and -23 dBTP, at the level of the bus and cut at its ceiling.
    fn tone(setup: Setup) -> Meter {
        let BusConfig { level, ceiling_dbtp, .. } = setup.bus;
        let most = ceiling_dbtp.map_or(f64::INFINITY, |ceiling| 10f64.powf(ceiling / 20.0));
        let size = (f64::from(level) * 10f64.powf(-23.0 / 20.0)).min(most);
        let samples: Vec<f32> = (0..48_000).map(|i| (size * (f64::from(i) * 0.130_9).sin()) as f32).collect();
        let mut meter = Meter::new(48_000);
        meter.push(&samples, &samples);
        meter
    }

    #[test]
    fn peaks_near_the_ceiling_are_limited() {
        let setup = Setup { bus: BusConfig::new(48_000), length: Length::Whole, max_voices: 1, buses: Buses::Mix };
        for (target, is_limited) in [(-12.0, false), (-1.7, false), (-1.3, true)] {
            let mut passes = 0;
            let level = balance(setup, target, |setup| {
                passes += 1;
                Ok(tone(setup))
            });
            let level = level.unwrap();
            assert_eq!((level.is_limited, passes), (is_limited, if is_limited { 2 } else { 1 }), "{target} LUFS");
            assert!((level.gain_db() - (target + 23.0)).abs() < 0.1, "{target} LUFS: {level:?}");
        }
    }
}
