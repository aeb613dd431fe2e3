//! What the rows of a dataset hold.

use super::mel::Options;
use super::tokens::Tokens;
use crate::audio::Target;
use crate::text::count;
use crate::{Error, Result};

/// What the rows of a dataset hold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Feature {
    /// Spectrograms, one row per segment.
    Mel(Options),
    /// SNAC tokens, one row per file.
    Tokens(Tokens),
}

impl From<Options> for Feature {
    fn from(options: Options) -> Self {
        Self::Mel(options)
    }
}

impl From<Tokens> for Feature {
    fn from(tokens: Tokens) -> Self {
        Self::Tokens(tokens)
    }
}

impl Feature {
    /// Samples per second of the audio that rows are made from.
    pub fn sample_rate(&self) -> u32 {
        self.target().sample_rate
    }

    /// The audio that rows are made from.
    pub(in crate::dataset) fn target(&self) -> Target {
        match self {
            Self::Mel(options) => Target::new(options.mel.sample_rate),
            Self::Tokens(tokens) => tokens.target(),
        }
    }

    /// Rows of a file of `n_samples` samples.
    pub(in crate::dataset) fn n_rows(&self, n_samples: u64) -> Result<u64> {
        match self {
            Self::Tokens(tokens) => tokens.check_len(n_samples).map(|()| 1),
            Self::Mel(options) => match options.segments(n_samples) {
                0 => Err(Error::invalid(format!("{}: shorter than one segment", count(n_samples, "sample")))),
                n_rows => Ok(n_rows),
            },
        }
    }
}
