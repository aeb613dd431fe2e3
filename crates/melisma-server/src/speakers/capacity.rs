//! How many texts a voice model speaks at a time.
//!
//! The cache says how many have room, and the time of a step how many are heard without a gap: a frame takes a step for
//! each of its tokens, in a part of the time that it sounds, because the codec needs the device too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use melisma::speak::{Ensemble, EnsembleOptions, Speaker};
use melisma::text::{count, duration, size};
use melisma::{Device, Result};
use serde_json::{Value, json};

use crate::batcher::{largest, period};
use crate::config::Speakers as Sizing;

/// The steps of a frame take this part of the time that it sounds.
const SHARE: f64 = 0.5;

/// How many texts a voice model speaks at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeakerCapacity {
    /// Texts at a time.
    pub speakers: usize,
    /// Where the number comes from.
    pub source: SpeakerSource,
    /// The time of a step of so many.
    pub step: Duration,
    /// Seconds of speech of each of them in a second of steps.
    pub realtime: f64,
    /// Bytes of the model's cache.
    pub cache_bytes: u64,
    /// Long texts that the cache has room for at a time; of further ones each piece waits.
    pub n_cached: usize,
}

/// Where a number of speakers comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeakerSource {
    /// The time of a step was measured.
    Measured,
    /// More do not fit into the memory.
    Memory,
    /// The user chose it.
    Given,
}

impl fmt::Display for SpeakerCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.source {
            SpeakerSource::Measured => "as measured",
            SpeakerSource::Memory => "for which there is memory",
            SpeakerSource::Given => "as set",
        };
        let (speakers, step) = (count(self.speakers as u64, "speaker"), duration::show(self.step));
        write!(f, "{speakers}, {why}; {step} a step, {} of cache", size::show(self.cache_bytes))?;
        match self.n_cached < self.speakers {
            true => write!(f, ", room for {}", count(self.n_cached as u64, "long text")),
            false => Ok(()),
        }
    }
}

impl SpeakerCapacity {
    /// Returns `{"speakers", "source", "step_seconds", "cache_bytes"}`.
    pub fn json(&self) -> Value {
        let source = match self.source {
            SpeakerSource::Measured => "measured",
            SpeakerSource::Memory => "memory",
            SpeakerSource::Given => "given",
        };
        json!({
            "speakers": self.speakers,
            "source": source,
            "step_seconds": self.step.as_secs_f64(),
            "cache_bytes": self.cache_bytes,
        })
    }
}

/// Opens the ensemble of a voice model, whose cache may take `share` of the free memory. Unless a number is given, no
/// more are measured than there are streams: a text that waits for one would keep others from speaking.
pub(super) fn open(
    speaker: &Arc<Speaker>,
    (sizing, n_streams): (Sizing, usize),
    share: f64,
) -> Result<(Ensemble, SpeakerCapacity)> {
    let most = sizing.0.unwrap_or_else(|| most(speaker.context().device()).min(n_streams).max(1));
    let open = |n_texts: usize| {
        let cache_bytes = (speaker.free_cache_bytes(n_texts) as f64 * share) as u64;
        Ensemble::new(Arc::clone(speaker), EnsembleOptions { n_texts, cache_bytes })
    };
    let mut ensemble = open(most)?;
    let config = speaker.codec().config();
    let frame = period(config);
    let (n_fitting, limit) = (ensemble.n_texts(), frame.mul_f64(SHARE / config.n_slots() as f64));
    let (speakers, source) = match sizing.0 {
        Some(number) => (number, SpeakerSource::Given),
        None => match measured(&mut ensemble, n_fitting, limit)? {
            n if n < n_fitting => (n, SpeakerSource::Measured),
            n if n < most => (n, SpeakerSource::Memory),
            n => (n, SpeakerSource::Measured),
        },
    };
    if speakers < n_fitting {
        // A smaller cache is enough.
        drop(ensemble);
        ensemble = open(speakers)?;
    }
    // The buffers of the largest step are there before the first client.
    let step = ensemble.step_time(speakers)?;
    let realtime = frame.as_secs_f64() / (step.as_secs_f64() * config.n_slots() as f64).max(1e-9);
    let (cache_bytes, n_cached) = (ensemble.cache_bytes()[0], ensemble.n_texts());
    Ok((ensemble, SpeakerCapacity { speakers, source, step, realtime, cache_bytes, n_cached }))
}

fn most(device: &Device) -> usize {
    match device {
        Device::Cpu(_) => 32,
        Device::Cuda(_) => 256,
    }
}

/// Returns how many texts, up to `most`, have steps of at most `limit`; at least one.
fn measured(ensemble: &mut Ensemble, most: usize, limit: Duration) -> Result<usize> {
    let (mut curve, mut n) = (Vec::new(), 1);
    loop {
        let time = ensemble.step_time(n)?;
        curve.push((n, time));
        if time > limit || n == most {
            return Ok((largest(&curve, limit) as usize).max(1));
        }
        n = (2 * n).min(most);
    }
}
