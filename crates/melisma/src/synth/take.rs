//! What of a piece is recorded.

use super::engine_config::Buses;
use super::instrument::Instrument;
use super::length::Length;
use super::part::Parts;
use super::score::Score;

/// Voices at once unless others are asked for; beyond them, the oldest voice is stolen.
pub(super) const MAX_VOICES: usize = 1024;

/// The part of a piece that is recorded.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Take<'a> {
    /// The piece.
    pub score: &'a Score,
    /// How long it will be.
    pub length: Length,
    /// Whether instruments are recorded alone as well.
    pub buses: Buses,
    /// Parts that are recorded alone as well, instead of instruments.
    pub parts: Option<&'a Parts>,
    /// The most voices that may sound at once.
    pub max_voices: usize,
}

impl<'a> Take<'a> {
    /// Returns the whole of `score`, with at most 1024 voices, without stems. [`Setup::take`](super::Setup::take) is
    /// that of a setup.
    pub fn new(score: &'a Score) -> Self {
        Self { score, length: Length::Whole, buses: Buses::Mix, parts: None, max_voices: MAX_VOICES }
    }

    setters! {
        /// Sets how long it will be.
        pub fn with_length(length: Length);
        /// Sets whether instruments are recorded alone as well.
        pub fn with_buses(buses: Buses);
        /// Sets parts that are recorded alone as well, instead of instruments.
        pub fn with_parts(parts: impl Into<Option<&'a Parts>>);
        /// Sets the most voices that may sound at once.
        pub fn with_max_voices(max_voices: usize);
    }

    /// Returns the number of mixes of a recording: that of all notes, and one for each instrument or part.
    pub(super) fn n_mixes(&self) -> usize {
        let instruments = if self.buses == Buses::Stems { Instrument::ALL.len() } else { 0 };
        1 + self.parts.map_or(instruments, |parts| parts.names().len())
    }

    /// Returns the place of a note's stem.
    pub(super) fn stem(&self, index: usize, instrument: Instrument) -> Option<usize> {
        match self.parts {
            Some(parts) => parts.of().get(index).map(|part| usize::from(*part)),
            None => (self.buses == Buses::Stems).then_some(instrument as usize),
        }
    }
}
