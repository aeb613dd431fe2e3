//! Fields of a score that are checked while they are read.

use serde::{Deserialize, Deserializer, de};

/// Reads a MIDI key.
pub(super) fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    at_most(deserializer, "key", 127)
}

/// Reads a MIDI channel, counted from 0.
pub(super) fn channel<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    at_most(deserializer, "channel", 15)
}

fn at_most<'de, D: Deserializer<'de>>(deserializer: D, name: &str, limit: u8) -> Result<u8, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if value.fract() == 0.0 && (0.0..=f64::from(limit)).contains(&value) {
        return Ok(value as u8);
    }
    Err(de::Error::custom(format!("{name} is {value}; whole numbers from 0 to {limit}")))
}
