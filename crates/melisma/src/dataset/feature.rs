//! What the rows of a dataset hold.

use serde_json::{Map, Value};

use super::mel::{self, Options};
use super::plan::Plan;
use super::store::{Layout, Store};
use super::tokens::{self, Tokens};
use crate::audio::Target;
use crate::text::count;
use crate::{Error, Result};

/// What the rows of a dataset hold.
#[derive(Debug, Clone)]
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
    pub(super) fn target(&self) -> Target {
        match self {
            Self::Mel(options) => Target::new(options.mel.sample_rate),
            Self::Tokens(tokens) => tokens.target(),
        }
    }

    /// Rows of a file of `n_samples` samples.
    pub(super) fn n_rows(&self, n_samples: u64) -> Result<u64> {
        match self {
            Self::Tokens(tokens) => tokens.check_len(n_samples).map(|()| 1),
            Self::Mel(options) => match options.segments(n_samples) {
                0 => Err(Error::invalid(format!("{}: shorter than one segment", count(n_samples, "sample")))),
                n_rows => Ok(n_rows),
            },
        }
    }

    /// The header of the dataset that `plan` describes, for one of several shards.
    pub(super) fn layout(&self, plan: &Plan, (shard, n_shards): (usize, usize)) -> Layout {
        let (columns, attributes) = match self {
            Self::Mel(options) => mel::layout::describe(options, plan),
            Self::Tokens(tokens) => tokens::layout::describe(tokens, plan),
        };
        let shard = (n_shards > 1).then(|| ("shard", Value::from(format!("{}/{n_shards}", shard + 1))));
        let mut attributes: Vec<(&str, Value)> = attributes.into_iter().chain(shard).collect();
        attributes.sort_by_key(|(name, _)| *name);
        let attributes: Map<String, Value> =
            attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Layout { n_rows: plan.rows.len() as u64, columns, attributes }
    }

    /// Writes the columns that the plan determines, and sets every `status` to pending.
    pub(super) fn write_columns(&self, store: &Store, plan: &Plan) -> Result<()> {
        match self {
            Self::Mel(_) => mel::layout::write_columns(store, plan),
            Self::Tokens(tokens) => tokens::layout::write_columns(tokens, store, plan),
        }
    }
}
