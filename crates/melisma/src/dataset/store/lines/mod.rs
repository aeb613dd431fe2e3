//! Tokens as text: one JSON object per row.

pub(in crate::dataset) mod check;
pub(in crate::dataset) mod join;
pub(in crate::dataset) mod origin;
mod write;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use origin::Origin;

use crate::dataset::store;

/// How tokens become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lines {
    /// What a line holds.
    pub format: LineFormat,
    /// What happens to frames that start like the frame before them.
    pub repeats: Repeats,
}

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LineFormat {
    /// `codes`: one list for each level.
    #[default]
    Codes,
    /// `codes_list`: the vocabulary ids of Orpheus, frame by frame.
    Orpheus,
}

/// What happens to frames whose coarsest code is that of the frame before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Repeats {
    /// They stay.
    #[default]
    Keep,
    /// They are dropped, as scripts that fine-tune Orpheus do.
    Drop,
}

impl Lines {
    setters! {
        /// Sets what a line holds.
        pub fn with_format(format: LineFormat);
        /// Sets what happens to frames that start like the frame before them.
        pub fn with_repeats(repeats: Repeats);
    }

    /// Returns whether `path` is the name of a file of lines: whether it ends with `.jsonl`.
    pub fn is_name(path: impl AsRef<Path>) -> bool {
        store::is_lines(path.as_ref())
    }
}
