//! The record that an engine passed its self-check. It is valid while the entry's files, the
//! machine and the engine stay the same. It holds only a hash, so a damaged record just repeats the
//! check.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::folder::USED;
use super::{Entry, manifest};
use crate::output::{self, Existing};

pub(super) const PASSED: &str = "passed";

impl Entry {
    /// Returns whether the engine passed its self-check with the current files under `state`:
    /// machine, device and engine.
    pub(crate) fn has_passed(&self, state: &str) -> bool {
        let mut found = String::new();
        let read = File::open(self.folder.join(PASSED)).and_then(|file| file.take(256).read_to_string(&mut found));
        read.is_ok() && self.pass(state).is_some_and(|pass| pass == found)
    }

    /// Records the pass if the cache is writable; otherwise the check repeats on every use.
    pub(crate) fn record_pass(&self, state: &str) {
        if let Some(pass) = self.pass(state) {
            let _ = output::write(&self.folder.join(PASSED), pass.as_bytes(), Existing::Replace);
        }
    }

    /// Hashes `state`, the manifest with the hashes in it, and the name, size and time of every
    /// file.
    fn pass(&self, state: &str) -> Option<String> {
        let mut files = Vec::new();
        list(&self.folder, "", &mut files)?;
        files.sort();
        let manifest = manifest::bytes(&self.folder).ok()?;
        let mut hasher = blake3::Hasher::new_derive_key("melisma optimize self-check v1");
        for bytes in files.iter().map(String::as_bytes).chain([&manifest[..], state.as_bytes()]) {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        }
        Some(hasher.finalize().to_hex().to_string())
    }
}

/// Lists every file below `folder`, except those that change with every use. `None` if the
/// metadata of one cannot be read.
fn list(folder: &Path, prefix: &str, files: &mut Vec<String>) -> Option<()> {
    for entry in std::fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        if prefix.is_empty() && (name == USED || name == PASSED) {
            continue;
        }
        let data = entry.metadata().ok()?;
        let path = format!("{prefix}{name}");
        if data.is_dir() {
            list(&entry.path(), &format!("{path}/"), files)?;
        } else {
            let time = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            files.push(format!("{path} {} {}", data.len(), time.as_nanos()));
        }
    }
    Some(())
}
