//! MIDI messages at seconds, as a SoundFont needs them.

use std::sync::Arc;

use crate::Result;
use crate::synth::midi::{ChannelMessage, channel_messages, strikes};
use crate::synth::score::Score;

/// A MIDI piece with its programs, banks and controllers.
#[derive(Debug, Clone)]
pub struct Sequence {
    score: Score,
    messages: Vec<(f64, ChannelMessage)>,
    /// The note of each strike, by its place in the score.
    strikes: Arc<[u32]>,
}

impl Sequence {
    /// Reads a MIDI file.
    ///
    /// # Errors
    /// Those of [`Score::from_midi`].
    pub fn from_midi(bytes: &[u8]) -> Result<Self> {
        let (score, messages) = (Score::from_midi(bytes)?, channel_messages(bytes)?);
        Ok(Self { score, messages, strikes: strikes(bytes)?.notes.into() })
    }

    /// Returns a score as the MIDI file that [`Score::to_midi`] writes.
    ///
    /// # Errors
    /// Those of [`Score::to_midi`].
    pub fn from_score(score: &Score) -> Result<Self> {
        Self::from_midi(&score.to_midi()?)
    }

    /// Returns the notes as Melisma's own instruments would play them.
    pub fn score(&self) -> &Score {
        &self.score
    }

    /// Returns about how many bytes of memory it holds.
    pub fn bytes(&self) -> u64 {
        // A player has the messages once more.
        let messages = 2 * self.messages.len() * size_of::<(f64, ChannelMessage)>();
        self.score.bytes() + (messages + size_of_val(&*self.strikes)) as u64
    }

    pub(super) fn strikes(&self) -> Arc<[u32]> {
        Arc::clone(&self.strikes)
    }

    /// Returns the messages at the nearest samples.
    pub(super) fn at_rate(&self, sample_rate: u32) -> Vec<(u64, ChannelMessage)> {
        let sample = |seconds: f64| (seconds * f64::from(sample_rate)).round() as u64;
        self.messages.iter().map(|(seconds, message)| (sample(*seconds), *message)).collect()
    }
}
