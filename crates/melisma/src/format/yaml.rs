//! Small YAML files of strangers.

use serde::de::DeserializeOwned;
use serde_saphyr::MergeKeyPolicy;

use crate::{Error, Result};

/// Reads a file of a few hundred lines, without anchors, with `true` and `false` as the only booleans.
///
/// # Errors
/// `Corrupt` when it is not YAML with the fields of `T`.
pub(crate) fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 8,
            max_nodes: 20_000,
            max_events: 80_000,
            max_documents: 1,
            max_anchors: 0,
            max_aliases: 0,
        },
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.without_snippet().to_string();
        Error::corrupt(message.lines().next().unwrap_or("unreadable").to_owned())
    })
}
