//! How many texts a voice model speaks at a time.
//!
//! The model's cache says how many have room, and the time of a step how many are heard without a gap: a frame takes a
//! step for each of its tokens, in a part of the time that it sounds, because the codec needs the device too. Steps are
//! measured in rounds until the rounds agree, and compared with those of earlier starts, as those of streams are.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use melisma::speak::{Ensemble, EnsembleOptions, Speaker};
use melisma::text::{count, duration, size};
use melisma::{Device, Result};
use serde_json::{Value, json};

use super::Setup;
use crate::batcher::{CapacityReport, Measurement, Round, Source, largest, period};
use crate::log::Level;
use crate::stopper::Stopper;

/// The steps of a frame take this part of the time that it sounds.
const SHARE: f64 = 0.5;

/// How many texts a voice model speaks at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeakerCapacity {
    /// Texts at a time.
    pub speakers: usize,
    /// Where the number comes from.
    pub source: SpeakerSource,
    /// What this process measured, if it did.
    pub measured: Option<Measurement>,
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
    /// This process measured the time of steps.
    Measured,
    /// An earlier process measured it better.
    Cached,
    /// More do not fit into the memory.
    Memory,
    /// The user chose it.
    Given,
}

impl fmt::Display for SpeakerCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.source {
            SpeakerSource::Measured => "as measured",
            SpeakerSource::Cached => "as measured before",
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
    /// Returns `{"speakers", "source", "measured_speakers", "rounds", "error", "step_seconds", "cache_bytes"}`.
    pub fn json(&self) -> Value {
        let source = match self.source {
            SpeakerSource::Measured => "measured",
            SpeakerSource::Cached => "cached",
            SpeakerSource::Memory => "memory",
            SpeakerSource::Given => "given",
        };
        json!({
            "speakers": self.speakers,
            "source": source,
            "measured_speakers": self.measured.map(|measured| measured.capacity.streams),
            "rounds": self.measured.map(|measured| measured.n_rounds),
            "error": self.measured.map(|measured| measured.error),
            "step_seconds": self.step.as_secs_f64(),
            "cache_bytes": self.cache_bytes,
        })
    }
}

/// Opens the ensemble of a voice model, whose cache may take a part of the free memory. Unless a number is given, no
/// more are measured than there are streams: a text that waits for one would keep others from speaking.
pub(super) fn open(speaker: &Arc<Speaker>, setup: &Setup) -> Result<(Ensemble, SpeakerCapacity)> {
    let given = setup.sizing.0;
    let most = given.unwrap_or_else(|| most(speaker.context().device()).min(setup.n_streams).max(1));
    let open = |n_texts: usize| {
        let cache_bytes = (speaker.free_cache_bytes(n_texts) as f64 * setup.memory_share) as u64;
        Ensemble::new(Arc::clone(speaker), EnsembleOptions { n_texts, cache_bytes })
    };
    let mut ensemble = open(most)?;
    let config = speaker.codec().config();
    let frame = period(config);
    let (n_fitting, limit) = (ensemble.n_texts(), frame.mul_f64(SHARE / config.n_slots() as f64));
    let report = match given {
        // One text is spoken whatever its steps take.
        None if n_fitting > 1 => {
            let measured = measure(&mut ensemble, n_fitting, limit, &setup.stopper)?;
            Some(compare(speaker, setup, (measured, n_fitting)))
        }
        _ => None,
    };
    let n_found = report.map_or(n_fitting, |report| report.capacity.streams.min(n_fitting));
    let (speakers, source) = match (given, report.map(|report| report.source)) {
        (Some(number), _) => (number, SpeakerSource::Given),
        (None, _) if n_found == n_fitting && n_fitting < most => (n_found, SpeakerSource::Memory),
        (None, Some(Source::Cached)) => (n_found, SpeakerSource::Cached),
        (None, _) => (n_found, SpeakerSource::Measured),
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
    let measured = report.and_then(|report| report.measured);
    Ok((ensemble, SpeakerCapacity { speakers, source, measured, step, realtime, cache_bytes, n_cached }))
}

fn most(device: &Device) -> usize {
    match device {
        Device::Cpu(_) => 32,
        Device::Cuda(_) => 256,
    }
}

/// Measures how many texts, up to `most`, have steps of at most `limit`.
fn measure(ensemble: &mut Ensemble, most: usize, limit: Duration, stopper: &Stopper) -> Result<Measurement> {
    let (start, mut rounds) = (Instant::now(), Vec::new());
    loop {
        rounds.push(round(ensemble, most, limit, stopper)?);
        // A step draws a token for each text, and has no frames.
        let found = Measurement::of(&rounds, |curve| (largest(curve, limit), 1));
        if found.is_final(start) {
            return Ok(found);
        }
    }
}

/// Measures steps of 1, 2, 4, ... texts, up to `most` and those that take longer than `limit`.
fn round(ensemble: &mut Ensemble, most: usize, limit: Duration, stopper: &Stopper) -> Result<Round> {
    let (mut round, mut n_texts) = (Round::new(), 1);
    loop {
        stopper.check()?;
        let time = ensemble.step_time(n_texts)?;
        round.insert(n_texts, vec![time]);
        if time > limit || n_texts == most {
            return Ok(round);
        }
        n_texts = (2 * n_texts).min(most);
    }
}

/// Compares a measurement of up to `most` texts with the cached one.
fn compare(speaker: &Speaker, setup: &Setup, (measured, most): (Measurement, usize)) -> CapacityReport {
    let Some(cache) = &setup.cache else { return measured.into() };
    let (report, note) = cache.beside(shape(speaker.folder()), most).settle(measured);
    if let Some(note) = note {
        setup.log.line(Level::Info, &format!("voice model {}: {note}", setup.name));
    }
    report
}

/// Returns a hash of what the time of a step depends on. All weights would take seconds.
fn shape(folder: &Path) -> String {
    // The built-in voice has no folder.
    let config = fs::read(folder.join("config.json")).unwrap_or_default();
    let name = folder.as_os_str().as_encoded_bytes();
    blake3::Hasher::new().update(name).update(&config).finalize().to_hex().to_string()
}
