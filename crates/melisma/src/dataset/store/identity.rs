//! The identity of a dataset: its settings, and every row's file, position and length.

use std::path::Path;

use super::Store;
use super::hash::Entry;

/// An incremental hash.
pub(in crate::dataset) struct Identity(blake3::Hasher);

impl Identity {
    /// Starts with `config`, the settings as text.
    pub(in crate::dataset) fn new(config: &str) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(config.as_bytes());
        Self(hash)
    }

    /// Adds the next row: its file's name, then [`Entry::planned`].
    pub(in crate::dataset) fn add(&mut self, name: &[u8], numbers: &[u64]) {
        self.0.update(&(name.len() as u64).to_le_bytes());
        self.0.update(name);
        numbers.iter().for_each(|number| {
            self.0.update(&number.to_le_bytes());
        });
    }

    /// Adds a row that was read.
    pub(in crate::dataset) fn add_entry(&mut self, entry: &Entry<'_>) {
        self.add(entry.name, &entry.planned());
    }

    pub(in crate::dataset) fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// Returns the plan hash of the finished dataset at `path`, or `None` if it is not a dataset.
pub(in crate::dataset) fn plan_of(path: &Path) -> Option<String> {
    Store::open(path).ok()?.layout.text("plan").map(str::to_owned)
}
