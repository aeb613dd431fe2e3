//! How a score is played.

use super::bus::BusConfig;
use super::engine_config::Buses;
use super::event::Event;
use super::instrument::Instrument;
use super::length::Length;
use super::part::Parts;
use super::score::Score;
use super::take::{MAX_VOICES, Take};

/// Blocks a second.
const BLOCKS: u32 = 10;
/// Bytes of one voice in an engine, at most.
const VOICE_BYTES: u64 = 1 << 10;
/// Bytes of a bus's delay lines for each sample of a second, at most.
const BUS_BYTES: u64 = 32;

/// How a score is played.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Setup {
    /// The bus, which also has the sample rate.
    pub bus: BusConfig,
    /// How long it is.
    pub length: Length,
    /// The most voices at once.
    pub max_voices: usize,
    /// Whether each instrument is also returned alone.
    pub buses: Buses,
}

impl Setup {
    /// Returns the whole score through `bus`, with at most 1024 voices, without stems.
    pub fn new(bus: BusConfig) -> Self {
        Self { bus, length: Length::Whole, max_voices: MAX_VOICES, buses: Buses::Mix }
    }

    /// Returns the part of `score` that is recorded to be played like this.
    pub fn take<'a>(&self, score: &'a Score) -> Take<'a> {
        Take { score, length: self.length, buses: self.buses, parts: None, max_voices: self.max_voices }
    }

    setters! {
        /// Sets the bus, which also has the sample rate.
        pub fn with_bus(bus: BusConfig);
        /// Sets how long it is.
        pub fn with_length(length: Length);
        /// Sets the most voices at once.
        pub fn with_max_voices(max_voices: usize);
        /// Sets whether each instrument is also returned alone.
        pub fn with_buses(buses: Buses);
    }

    /// Returns about how many bytes of memory a performance of `score` holds, at most.
    pub fn bytes(&self, score: &Score) -> u64 {
        let n_stems = if self.buses == Buses::Stems { Instrument::ALL.len() } else { 0 };
        self.bytes_of(score, n_stems as u64)
    }

    /// Works like [`Setup::bytes`], for a performance with `parts`.
    pub fn bytes_with(&self, score: &Score, parts: &Parts) -> u64 {
        self.bytes_of(score, parts.names().len() as u64)
    }

    fn bytes_of(&self, score: &Score, n_stems: u64) -> u64 {
        let n_engines = 1 + n_stems.min(1);
        let n_events = 2 * score.notes.len() + score.bends.len() + score.controls.len();
        let voices = (self.max_voices as u64).saturating_mul(n_engines * VOICE_BYTES);
        let buses = (1 + n_stems) * u64::from(self.bus.sample_rate) * BUS_BYTES;
        voices.saturating_add(buses).saturating_add((n_events * size_of::<Event>()) as u64)
    }
}

/// Returns the samples of a block.
pub(super) fn block_len(sample_rate: u32) -> usize {
    (sample_rate / BLOCKS).max(1) as usize
}
