//! Why the cache has no entry.

use std::fmt;

/// What a search of the cache without a result found out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Miss {
    /// No engine is cached for the model.
    Unknown,
    /// These parts changed since the nearest entry of the model, as `name: theirs -> ours`.
    Changed(Vec<String>),
    /// An entry exists but cannot be used; the text says what happened to it.
    Rejected(String),
    /// The entry was removed because a new search was asked for.
    Asked,
    /// The cache itself cannot be used.
    Unusable(String),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no engine is cached for this model"),
            Self::Changed(changes) => write!(f, "changed since the last time: {}", changes.join("; ")),
            Self::Asked => f.write_str("measured again, as asked"),
            Self::Rejected(reason) | Self::Unusable(reason) => f.write_str(reason),
        }
    }
}
