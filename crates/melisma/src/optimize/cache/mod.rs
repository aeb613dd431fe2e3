//! Engines on disk, looked up by everything that they depend on. The cache only saves time: if it
//! is deleted, damaged or copied, the results do not change.
//!
//! ```text
//! engines/KEY/manifest.json    what it is, its files with their hashes, outputs to check it by
//! engines/KEY/seal             BLAKE3 of the manifest
//! engines/KEY/...              the files of the engine
//! engines/KEY/passed           that it passed its self-check with these files
//! engines/locks/KEY            held while KEY is being built
//! engines/quarantine/KEY.N     an entry that failed a check, with the reason beside it
//! ```
//!
//! An entry is built in its own folder under the lock and published by a rename. It is used if its
//! seal, its key and the hash of every file match. The caller then runs it and compares with the
//! recorded outputs. A passed check is recorded and stays valid until a file, the machine or the
//! engine changes.
//!
//! # Why does a cached engine run before it is used?
//!
//! Engine caches have served one model's engine for another without an error. This one compares
//! hashes on every use, and outputs once for each state of the files, the machine and the engine's
//! library: a wrong engine would have to be wrong in the same way as when it was built.

mod access;
mod contents;
mod folder;
mod key;
mod manifest;
mod miss;
mod passed;
mod temporary;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

pub use contents::{EntryInfo, Health};
pub use folder::{Cache, Options};
#[doc(hidden)]
pub use key::{Key, Parts};
#[doc(hidden)]
pub use manifest::{FileEntry, Manifest, Sample, VERSION};
#[doc(hidden)]
pub use miss::Miss;
#[doc(hidden)]
pub use temporary::Temporary;

use crate::output::failed;
use crate::{ErrorKind, Result};

use access::Access;
use folder::{BUILDING, LOCKS, touch};

/// The result of a lookup.
#[doc(hidden)]
#[derive(Debug)]
pub enum Found {
    /// An entry whose files are unchanged.
    Hit(Entry),
    /// No usable entry, with the reason.
    Miss(Miss),
}

/// A checked entry.
#[doc(hidden)]
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The folder with its files.
    pub folder: PathBuf,
    /// Its description.
    pub manifest: Manifest,
    /// Set if the entry could not be cached. Dropping it then removes the folder.
    pub uncached: Option<Uncached>,
}

/// Holds an entry outside the cache; removes it when dropped.
#[derive(Debug)]
#[doc(hidden)]
pub struct Uncached {
    /// Why it is not in the cache.
    pub reason: String,
    _folder: Temporary,
}

/// The result of a builder, besides the files that it wrote.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)]
#[non_exhaustive]
pub struct Built {
    /// How to use the files, and what was measured.
    pub plan: Value,
    /// Outputs that the engine must reproduce.
    pub self_check: Vec<Sample>,
}

impl Built {
    /// Returns files that are used by `plan`, with outputs that the engine must reproduce.
    pub fn new(plan: Value, self_check: Vec<Sample>) -> Self {
        Self { plan, self_check }
    }
}

impl Cache {
    /// Looks up the entry for `parts`. An entry that fails a check is quarantined, and the miss
    /// says so.
    #[doc(hidden)]
    pub fn find(&self, parts: &Parts) -> Found {
        let key = parts.key();
        let is_there = |folder: &Path| std::fs::symlink_metadata(folder.join(key.as_str())).is_ok();
        if self.folder().is_some_and(|folder| !is_there(folder)) {
            return Found::Miss(self.nearest(parts));
        }
        self.take(&key)
    }

    /// Looks up and checks the entry for `key`. An entry that fails a check is quarantined, and the
    /// miss says so.
    #[doc(hidden)]
    pub fn take(&self, key: &Key) -> Found {
        let Some(folder) = self.folder() else {
            return Found::Miss(Miss::Unusable(self.note().unwrap_or_default().to_owned()));
        };
        let entry = folder.join(key.as_str());
        match self.check(&entry, key) {
            Ok(manifest) => {
                touch(&entry);
                Found::Hit(Entry { folder: entry, manifest, uncached: None })
            }
            Err(error) => Found::Miss(Miss::Rejected(self.set_aside(key, &error.to_string()))),
        }
    }

    /// Finds the entry for `parts`, or calls `build` with a folder to build it in. Of several
    /// concurrent callers, only one builds. The second value says why the entry was built; it is
    /// `None` for a hit.
    ///
    /// # Errors
    /// Those of `build`. An unwritable cache is not an error: the entry is then built outside of
    /// it, see [`Entry::uncached`].
    #[doc(hidden)]
    pub fn find_or_build(
        &self,
        parts: &Parts,
        build: &mut dyn FnMut(&Path) -> Result<Built>,
    ) -> Result<(Entry, Option<Miss>)> {
        let miss = match self.find(parts) {
            Found::Hit(entry) => return Ok((entry, None)),
            Found::Miss(miss) => miss,
        };
        let Access::Open(folder) = &self.access else {
            let why = self.note().unwrap_or_default().to_owned();
            return self.build_outside(parts, &miss, why, build).map(|entry| (entry, Some(miss)));
        };
        let key = parts.key();
        let _lock = lock(folder, &key);
        // The previous holder of the lock may have built it.
        let miss = match self.find(parts) {
            Found::Hit(entry) => return Ok((entry, None)),
            Found::Miss(Miss::Unknown) => miss,
            Found::Miss(again) => again,
        };
        self.remove_leftovers(&key);
        let work = folder.join(format!("{BUILDING}{}-{}", key.as_str(), std::process::id()));
        let made = std::fs::create_dir(&work).map_err(|error| failed(&work, error)).and_then(|()| {
            let manifest = self.build_in(&work, parts, &miss, build)?;
            self.publish(&work, &key)?;
            Ok(manifest)
        });
        match made {
            Ok(manifest) => {
                self.make_room(&key);
                Ok((Entry { folder: folder.join(key.as_str()), manifest, uncached: None }, Some(miss)))
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(&work);
                if error.kind() != ErrorKind::Io {
                    return Err(error);
                }
                let entry = self.build_outside(parts, &miss, error.to_string(), build)?;
                Ok((entry, Some(miss)))
            }
        }
    }

    /// Quarantines an entry that failed its self-check, and describes what happened to it.
    #[doc(hidden)]
    pub fn reject(&self, key: &Key, reason: &str) -> String {
        self.set_aside(key, reason)
    }

    fn build_in(
        &self,
        work: &Path,
        parts: &Parts,
        miss: &Miss,
        build: &mut dyn FnMut(&Path) -> Result<Built>,
    ) -> Result<Manifest> {
        let begin = Instant::now();
        let Built { plan, self_check } = build(work)?;
        let mut manifest = Manifest {
            version: VERSION,
            parts: parts.clone(),
            files: Default::default(),
            plan,
            self_check,
            reason: miss.to_string(),
            build_seconds: begin.elapsed().as_secs_f64(),
        };
        manifest.write(work, self.threads)?;
        Ok(manifest)
    }

    fn publish(&self, work: &Path, key: &Key) -> Result<()> {
        let Some(folder) = self.folder() else { return Ok(()) };
        let entry = folder.join(key.as_str());
        std::fs::rename(work, &entry).map_err(|error| failed(&entry, error))?;
        touch(&entry);
        // Makes the rename survive a power cut where the file system supports it.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn build_outside(
        &self,
        parts: &Parts,
        miss: &Miss,
        why: String,
        build: &mut dyn FnMut(&Path) -> Result<Built>,
    ) -> Result<Entry> {
        let temporary = Temporary::new()?;
        let folder = temporary.path().to_owned();
        let manifest = self.build_in(&folder, parts, miss, build)?;
        Ok(Entry { folder, manifest, uncached: Some(Uncached { reason: why, _folder: temporary }) })
    }

    /// Explains a miss: what changed since the nearest entry of the same model.
    fn nearest(&self, parts: &Parts) -> Miss {
        let (entries, _) = self.entries();
        let of_model = entries.iter().filter(|(_, manifest)| manifest.parts.get("model") == parts.get("model"));
        let changes = of_model.map(|(_, manifest)| parts.changes_from(&manifest.parts)).min_by_key(Vec::len);
        changes.map_or(Miss::Unknown, Miss::Changed)
    }
}

/// Locks `key` until dropped. On file systems without locks this returns `None`, and the rename
/// decides.
fn lock(folder: &Path, key: &Key) -> Option<File> {
    let locks = folder.join(LOCKS);
    std::fs::create_dir_all(&locks).ok()?;
    let file = File::options().create(true).truncate(false).write(true).open(locks.join(key.as_str())).ok()?;
    file.lock().ok()?;
    Some(file)
}
