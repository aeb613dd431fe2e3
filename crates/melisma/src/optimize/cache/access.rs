//! Whether a folder can hold the cache: it must be a directory, belong to this user, and not be
//! world-writable.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::output::failed;
use crate::{Error, Result};

/// How the folder can be used.
#[derive(Debug, Clone)]
pub(super) enum Access {
    Open(PathBuf),
    ReadOnly(PathBuf, String),
    Off(String),
}

impl Access {
    pub(super) fn of(folder: &Path) -> Self {
        if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Self::Off(format!("the cache cannot be used: {}", failed(folder, error)));
        }
        if let Err(error) = is_ours(folder) {
            return Self::Off(format!("the cache cannot be used: {error}"));
        }
        match is_writable(folder) {
            Ok(()) => Self::Open(folder.to_owned()),
            Err(error) => Self::ReadOnly(folder.to_owned(), format!("the cache can only be read: {error}")),
        }
    }
}

/// Checks that nobody else can have written into a folder of the cache.
///
/// # Errors
/// It is not a directory, belongs to another user, or is world-writable.
pub(super) fn is_ours(folder: &Path) -> Result<()> {
    let data = std::fs::metadata(folder).map_err(|error| Error::io(folder.display(), error))?;
    if !data.is_dir() {
        return Err(Error::invalid(format!("{}: not a folder", folder.display())));
    }
    let Some(us) = our_id() else { return Ok(()) };
    if data.uid() != us {
        return Err(foreign(folder, format!("user {}, not to user {us}", data.uid())));
    }
    if data.mode() & 0o002 != 0 {
        return Err(Error::invalid(format!("{}: everybody may write to it", folder.display()))
            .with_hint("take that right away with chmod o-w"));
    }
    Ok(())
}

/// Returns the effective user of this process: the owner of its entry in `/proc`.
pub(super) fn our_id() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|data| data.uid())
}

fn is_writable(folder: &Path) -> Result<()> {
    let probe = folder.join(format!(".probe-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
    let written = std::fs::write(&probe, b"x");
    let _ = std::fs::remove_file(&probe);
    written.map_err(|error| failed(folder, error))
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn foreign(path: &Path, owner: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{}: it belongs to {owner}", path.display()))
        .with_hint("set MELISMA_CACHE_DIR to a folder of your own")
}
