//! The identity of a dataset: its settings, and every row's file, position and length.

use std::path::Path;

use super::hash::Entry;
use super::store::Store;

/// An incremental hash.
pub(super) struct Identity(blake3::Hasher);

impl Identity {
    /// Starts with `config`, the settings as text.
    pub(super) fn new(config: &str) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(config.as_bytes());
        Self(hash)
    }

    /// Adds the next row: its file's name, then [`Entry::planned`].
    pub(super) fn add(&mut self, name: &[u8], numbers: &[u64]) {
        self.0.update(&(name.len() as u64).to_le_bytes());
        self.0.update(name);
        numbers.iter().for_each(|number| {
            self.0.update(&number.to_le_bytes());
        });
    }

    /// Adds a row that was read.
    pub(super) fn add_entry(&mut self, entry: &Entry<'_>) {
        self.add(entry.name, &entry.planned());
    }

    pub(super) fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// The plan hash of the finished dataset at `path`, or `None` if it is not a dataset.
pub(super) fn plan_of(path: &Path) -> Option<String> {
    Store::open(path).ok()?.layout.text("plan").map(str::to_owned)
}
