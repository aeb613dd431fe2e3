//! The gain that gives a piece its loudness.

use super::bus::BusConfig;
use super::engine::Buses;
use super::performance::Setup;
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

    /// The gain in decibels.
    pub fn gain_db(self) -> f64 {
        20.0 * f64::from(self.gain).log10()
    }
}

/// The gain that makes a piece as loud as `target_lufs` behind the limiter; 1 for silence. `listen` plays it to its end
/// with the setup given.
///
/// A piece that stays below the ceiling is played once. Any other loses loudness to the limiter and is played again until
/// the result is right, five times at most.
///
/// # Errors
/// Those of `listen`, and a target that is not from -70 to 0 LUFS.
pub fn balance(setup: Setup, target_lufs: f64, mut listen: impl FnMut(Setup) -> Result<Meter>) -> Result<Level> {
    if !(-70.0..=0.0).contains(&target_lufs) {
        return Err(Error::invalid(format!("a loudness of {target_lufs} LUFS; -70 to 0"))
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
