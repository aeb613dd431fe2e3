//! What the rows of a dataset hold.

use super::mel::Options;
use super::prepare::Preparation;
use super::tokens::{Tokens, Untexted};
use crate::audio::Target;
use crate::dataset::input::Text;
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
    /// Returns the number of samples per second of the audio that rows are made from.
    pub fn sample_rate(&self) -> u32 {
        self.target().sample_rate
    }

    /// Returns the audio that rows are made from.
    pub(in crate::dataset) fn target(&self) -> Target {
        match self {
            Self::Mel(options) => Target::new(options.mel.sample_rate),
            Self::Tokens(tokens) => tokens.target(),
        }
    }

    /// Returns what is done with the audio of a file before rows are made of it.
    pub(super) fn preparation(&self) -> &Preparation {
        match self {
            Self::Mel(options) => &options.preparation,
            Self::Tokens(tokens) => &tokens.preparation,
        }
    }

    /// Returns whether files without a text are left out.
    pub(super) fn requires_text(&self) -> bool {
        matches!(self, Self::Tokens(tokens) if tokens.untexted == Untexted::LeaveOut)
    }

    /// Returns why a file that could be used is left out: the code of its failure, and a message.
    pub(super) fn leave_out(&self, n_samples: u64, texts: &Result<Vec<Text>>) -> Option<(&'static str, Error)> {
        let lengths = match self {
            Self::Mel(options) => options.lengths,
            Self::Tokens(tokens) => tokens.lengths,
        };
        lengths.refuse(n_samples as f64 / f64::from(self.sample_rate())).or_else(|| match self {
            Self::Tokens(tokens) => tokens.untexted.refuse(texts),
            Self::Mel(_) => None,
        })
    }

    /// Returns the number of rows of a file of `n_samples` samples.
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
