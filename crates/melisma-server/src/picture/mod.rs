//! A picture of audio while it is made: mel frames and the outline of the waveform, as messages.
//!
//! ```text
//! {"type":"mel","first_frame","n_mels","hop_samples","data"}   base64 of n_mels bytes per frame
//! {"type":"wave","first_sample","step","min","max"}            extremes of every `step` samples
//! ```
//!
//! Frames and filters are those of a preset of `melisma mel`, but values are decibels, whatever the
//! preset scales its own by: a byte is `(dB + 100) / 0.4`, and a sine of full scale is about 0 dB.
//! The bytes do not depend on how the samples are cut.

mod mel;
mod wave;

use melisma::Result;
use melisma::mel::Config;
use serde_json::Value;

use mel::Frames;
use wave::Outline;

/// The preset of pictures that accompany a stream.
const PRESET: &str = "builder";
/// The most samples of one message.
const PIECE: usize = 1 << 14;

/// The picture of one stream.
#[derive(Debug)]
pub struct Picture {
    frames: Frames,
    outline: Outline,
}

impl Picture {
    /// Creates a picture with the frames and filters of `preset`, of one channel at the preset's rate.
    ///
    /// # Errors
    /// A value of `preset` is out of its bounds.
    pub fn new(preset: Config) -> Result<Self> {
        let outline = Outline::new(preset.hop_length);
        Ok(Self { frames: Frames::new(preset)?, outline })
    }

    /// Returns a picture of a stream of the given rate.
    ///
    /// # Errors
    /// The rate is too low for the filters.
    pub fn at_rate(sample_rate: u32) -> Result<Self> {
        let mut config = Config::preset(PRESET)?;
        config.sample_rate = sample_rate;
        Self::new(config)
    }

    /// Takes samples and returns the messages that they complete.
    ///
    /// # Errors
    /// Memory for the frames is refused.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<Value>> {
        let mut messages = Vec::new();
        for piece in samples.chunks(PIECE) {
            messages.extend(self.frames.push(piece)?);
            messages.extend(self.outline.push(piece));
        }
        Ok(messages)
    }

    /// Returns the messages of the rest.
    ///
    /// # Errors
    /// There were fewer samples than the first frame needs.
    pub fn finish(self) -> Result<Vec<Value>> {
        Ok(self.frames.finish()?.into_iter().chain(self.outline.finish()).collect())
    }
}

#[cfg(test)]
mod tests;
