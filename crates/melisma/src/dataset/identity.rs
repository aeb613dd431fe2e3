//! The identity of a dataset: its settings, and every row's file, position and length.

use std::path::Path;

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

    /// Adds the next row: its file's name, then file index, first sample and valid frames.
    pub(super) fn add(&mut self, name: &[u8], numbers: [u64; 3]) {
        self.0.update(&(name.len() as u64).to_le_bytes());
        self.0.update(name);
        self.0.update(&numbers.map(u64::to_le_bytes).concat());
    }

    pub(super) fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// The plan hash of the finished dataset at `path`, or `None` if it is not a dataset.
pub(super) fn plan_of(path: &Path) -> Option<String> {
    Store::open(path).ok()?.layout.text("plan").map(str::to_owned)
}
