//! Settings of spectrograms.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::length::Lengths;
use super::prepare::Preparation;
use crate::dataset::row::Row;
use crate::mel::{Config, Log, OutputPrecision};
use crate::text::count;
use crate::{Error, Result};

/// The most samples of a segment.
const MAX_SEGMENT: u64 = 1 << 31;

/// What happens to the end of a file that does not fill a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tail {
    /// It is padded with silence.
    Pad,
    /// It is dropped.
    Drop,
}

/// The settings that determine the values of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Options {
    /// How spectrograms are computed.
    pub mel: Config,
    /// Samples of a segment, at the configured rate.
    pub segment_samples: usize,
    /// Samples from one segment's start to the next.
    pub segment_hop_samples: usize,
    /// What happens to the end of a file that does not fill a segment.
    pub tail: Tail,
    /// The lengths of the files that are used.
    #[serde(flatten)]
    pub lengths: Lengths,
    /// What is done with the audio of a file before it is cut.
    #[serde(flatten)]
    pub preparation: Preparation,
}

fn samples(what: &str, time: Duration, rate: u32) -> Result<usize> {
    let n = (time.as_secs_f64() * f64::from(rate)).round();
    if n < 1.0 || n > MAX_SEGMENT as f64 {
        return Err(Error::invalid(format!("{what} of {time:?} is {n} samples; 1 to {MAX_SEGMENT} are possible"))
            .with_hint("a segment is a length of time, such as 10s or 500ms"));
    }
    Ok(n as usize)
}

impl Options {
    /// Cuts segments of length `segment` that follow each other, in FP16 for logarithmic presets
    /// and FP32 for linear ones. The end of a file is padded.
    ///
    /// # Errors
    /// The length rounds to zero samples, or is too short for a frame.
    pub fn new(mel: Config, segment: Duration) -> Result<Self> {
        let segment_samples = samples("a segment", segment, mel.sample_rate)?;
        mel.kernel()?;
        if mel.n_frames(segment_samples)? == 0 {
            return Err(Error::invalid(format!(
                "a segment of {} has no frame",
                count(segment_samples as u64, "sample")
            )));
        }
        let dtype = if mel.log == Log::None { OutputPrecision::F32 } else { OutputPrecision::F16 };
        let mel = Config { dtype, ..mel };
        let (lengths, preparation) = (Lengths::default(), Preparation::default());
        Ok(Self { mel, segment_samples, segment_hop_samples: segment_samples, tail: Tail::Pad, lengths, preparation })
    }

    /// Reads the settings of a dataset, its attribute `config`.
    ///
    /// # Errors
    /// These are not the settings of spectrograms.
    pub fn parse(config: &str) -> Result<Self> {
        serde_json::from_str(config)
            .map_err(|error| Error::invalid(format!("these are not the settings of spectrograms: {error}")))
    }

    /// Cuts segments that begin `hop` apart.
    ///
    /// # Errors
    /// The time rounds to zero samples.
    pub fn with_hop(self, hop: Duration) -> Result<Self> {
        Ok(Self { segment_hop_samples: samples("a segment hop", hop, self.mel.sample_rate)?, ..self })
    }

    /// Sets the treatment of the end of a file.
    #[must_use]
    pub fn with_tail(self, tail: Tail) -> Self {
        Self { tail, ..self }
    }

    setters! {
        /// Sets the lengths of the files that are used.
        pub fn with_lengths(lengths: Lengths);
        /// Sets what is done with the audio of a file before it is cut.
        pub fn with_preparation(preparation: Preparation);
    }

    /// Returns the number of frames in a row.
    pub fn n_frames(&self) -> usize {
        self.mel.n_frames(self.segment_samples).unwrap_or(0)
    }

    pub(in crate::dataset) fn segments(&self, n_samples: u64) -> u64 {
        let (len, hop) = (self.segment_samples as u64, self.segment_hop_samples as u64);
        match self.tail {
            Tail::Pad => n_samples.saturating_sub(len).div_ceil(hop) + u64::from(n_samples > 0),
            Tail::Drop => n_samples.checked_sub(len).map_or(0, |rest| rest / hop + 1),
        }
    }

    /// Returns the row of segment `index` of the `n_samples` samples of a file from `first` on.
    pub(in crate::dataset) fn row(&self, file: u32, index: u64, (first, n_samples): (u64, u64)) -> Row {
        let start = index * self.segment_hop_samples as u64;
        let n_samples = (n_samples - start).min(self.segment_samples as u64);
        Row { file, start: first + start, n_samples, valid_frames: self.valid_frames(n_samples as usize) }
    }

    /// Returns the bytes of a row of `mel`.
    pub(in crate::dataset) fn row_bytes(&self) -> usize {
        self.mel.n_mels * self.n_frames() * self.mel.dtype.bytes()
    }

    fn valid_frames(&self, n_samples: usize) -> u32 {
        let all = self.n_frames();
        let valid =
            if n_samples >= self.segment_samples { all } else { self.mel.n_frames(n_samples).unwrap_or(1).min(all) };
        valid as u32
    }
}
