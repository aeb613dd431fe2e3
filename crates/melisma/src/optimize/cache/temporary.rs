//! Temporary folders, one per search. A killed process leaves its folder behind, and the next
//! search removes it.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::access::our_id;
use crate::output::failed;
use crate::{Error, Result};

const PREFIX: &str = "melisma-optimize-";
/// Locked while the folder is in use.
const LOCK: &str = ".lock";

/// A folder that only this user can access; removed when dropped.
#[derive(Debug)]
pub struct Temporary {
    folder: PathBuf,
    /// While this is open, no search treats the folder as a leftover. Not every file system has
    /// locks.
    _lock: Option<File>,
}

impl Temporary {
    /// Creates a folder, and removes those that dead processes of this user left.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new() -> Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    pub(super) fn new_in(root: &Path) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers(root);
        for _ in 0..100 {
            let folder = root.join(format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let lock = File::create(folder.join(LOCK)).ok().filter(|file| file.lock().is_ok());
                    return Ok(Self { folder, _lock: lock });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&folder, error)),
            }
        }
        Err(Error::invalid(format!("{}: no new folder can be made", root.display())))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A drop cannot report errors; the next search removes the leftover.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn remove_leftovers(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if is_leftover(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether `folder` is a temporary folder of this user whose process is dead.
fn is_leftover(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
    let id = name.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    let (Some(id), Some(us)) = (id, our_id()) else { return false };
    let is_ours = std::fs::symlink_metadata(folder).is_ok_and(|data| data.is_dir() && data.uid() == us);
    is_ours && !Path::new("/proc").join(id.to_string()).exists() && !is_locked(folder)
}

/// Returns whether a process holds the folder's lock: processes of other containers are invisible
/// here, but their locks are not.
fn is_locked(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_processes_left_is_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        // No process has an id this large.
        let dead = |rest: &str| root.path().join(format!("{PREFIX}4194999{rest}"));
        let make = |path: &Path| std::fs::create_dir(path).unwrap();
        let (left, locked, link, foreign) = (dead("-0"), dead("-1"), dead("-2"), dead("-3"));
        let living = root.path().join(format!("{PREFIX}{}-77", std::process::id()));
        let other = root.path().join("melisma-optimize-notes");
        for folder in [&left, &locked, &living, &other, &foreign] {
            make(folder);
            std::fs::write(folder.join("model.onnx"), b"large").unwrap();
        }
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let is_foreign = std::os::unix::fs::chown(&foreign, Some(12_345), None).is_ok();
        let lock = File::create(locked.join(LOCK)).unwrap();
        lock.lock().unwrap();
        let made = Temporary::new_in(root.path()).unwrap();
        assert!(!left.exists(), "the process is gone");
        assert!(living.exists() && locked.exists() && other.exists() && link.is_symlink());
        assert_eq!(foreign.exists(), is_foreign, "only root can give a folder away");
        drop(lock);
        let second = Temporary::new_in(root.path()).unwrap();
        assert!(!locked.exists() && made.path().exists() && second.path() != made.path());
        let path = made.path().to_owned();
        drop(made);
        assert!(!path.exists());
    }
}
