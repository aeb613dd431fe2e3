//! The folder of the cache: how it is opened, and whether an entry in it may be used.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use super::access::{self, Access};
use super::key::Key;
use super::manifest::Manifest;
use crate::Result;
use crate::config::Config;

pub(super) const USED: &str = "used";
pub(super) const LOCKS: &str = "locks";
pub(super) const QUARANTINE: &str = "quarantine";
pub(super) const BUILDING: &str = ".building-";

/// A cache of engines in a folder.
#[derive(Debug, Clone)]
pub struct Cache {
    pub(super) access: Access,
    pub(super) limit_bytes: u64,
    pub(super) threads: usize,
}

/// How a cache is opened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Options {
    /// Limit on the total size of all entries; beyond it, the least recently used are evicted.
    pub limit_bytes: u64,
    /// Threads used for hashing.
    pub threads: usize,
}

impl Options {
    /// Allows entries of `limit_bytes` in all, hashed on one thread.
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, threads: 1 }
    }

    /// Sets threads used for hashing.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
}

impl Cache {
    /// Opens the cache that the settings name.
    pub fn of(config: &Config) -> Self {
        let options = Options { limit_bytes: config.cache_limit.value.0, threads: config.threads.value.count() };
        Self::open(config.cache_dir.value.as_deref(), options)
    }

    /// Opens the cache in the folder `engines` below `root`. Without a usable root, every engine is
    /// built anew and [`Cache::note`] says why.
    pub fn open(root: Option<&Path>, options: Options) -> Self {
        let access = match root {
            Some(root) => Access::of(&root.join("engines")),
            None => Access::Off("no cache folder is known; set MELISMA_CACHE_DIR or HOME".to_owned()),
        };
        Self { access, limit_bytes: options.limit_bytes, threads: options.threads.max(1) }
    }

    /// Returns why the cache is read-only or off.
    pub fn note(&self) -> Option<&str> {
        match &self.access {
            Access::Open(_) => None,
            Access::ReadOnly(_, reason) | Access::Off(reason) => Some(reason),
        }
    }

    /// Returns the folder, unless the cache is off.
    pub fn folder(&self) -> Option<&Path> {
        match &self.access {
            Access::Open(folder) | Access::ReadOnly(folder, _) => Some(folder),
            Access::Off(_) => None,
        }
    }

    pub(super) fn check(&self, entry: &Path, key: &Key) -> Result<Manifest> {
        access::is_ours(entry)?;
        let manifest = Manifest::read(entry, key)?;
        manifest.check_files(entry, self.threads)?;
        Ok(manifest)
    }
}

/// Updates the entry's time of last use and its use count, if the cache is writable.
pub(super) fn touch(entry: &Path) {
    let path = entry.join(USED);
    let uses = uses(entry).saturating_add(1);
    let _ = std::fs::write(&path, uses.to_string());
    let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
}

pub(super) fn uses(entry: &Path) -> u64 {
    std::fs::read_to_string(entry.join(USED)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
