//! What a search says while it works.

use std::fmt;

/// A message of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// What is being done, or was decided.
    Progress(String),
    /// Something that the user may want to change.
    Note(String),
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Progress(text) => f.write_str(text),
            Self::Note(text) => write!(f, "note: {text}"),
        }
    }
}
