//! Where an output lies, and who may use it.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::Existing;
use crate::{Error, ErrorKind, Remedy, Result};

/// The most links in a row, as on Linux.
const MAX_LINKS: usize = 40;
const PERMISSIONS: u32 = 0o777;
const GROUP: u32 = 0o070;

/// Returns the file that an output called `path` is written to: `path` itself, or what a symbolic link leads to.
///
/// # Errors
/// The link is part of a cycle, or it is dangling and may not be replaced.
pub fn target(path: &Path, existing: Existing) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = target.read_link() else {
            return match target != path && existing == Existing::Refuse && target.symlink_metadata().is_err() {
                true => Err(dangling(path, &target)),
                false => Ok(target),
            };
        };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(Error::invalid(format!("{}: this link is part of a cycle", path.display())).with_hint("choose another name"))
}

fn dangling(path: &Path, target: &Path) -> Error {
    let message = format!("{}: this link exists already, and leads to {}", path.display(), target.display());
    Error::new(ErrorKind::Exists, format!("{message}, which does not"))
        .with_hint(Remedy::Replace)
        .or_hint("remove the link")
}

/// Gives `file` the permissions of the file or folder `old` that it is going to replace, and its owner
/// and group where the system allows it. Without `old`, nothing changes.
pub(crate) fn adopt_rights(old: &Path, file: &File) -> io::Result<()> {
    let Some((old, new)) = pair(old, file)? else { return Ok(()) };
    let mut mode = old.mode() & 0o7777;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) && fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        // Of another owner, the bits beyond the permissions would give other rights.
        mode &= PERMISSIONS;
        if old.gid() != new.gid() && fchown(file, None, Some(old.gid())).is_err() {
            // A group that had no part in the old file gets no more than all others.
            mode &= !GROUP | (mode & 0o007) << 3;
        }
    }
    set_mode(file, mode)
}

/// Hides the unfinished `file` from everybody who may not use the file or folder `old` that it is
/// going to replace.
pub(crate) fn conceal(old: &Path, file: &File) -> io::Result<()> {
    let Some((old, new)) = pair(old, file)? else { return Ok(()) };
    let own = if new.is_dir() { 0o700 } else { 0o600 };
    set_mode(file, new.mode() & old.mode() & PERMISSIONS | own)
}

/// Returns the old file and the new one if they are of the same kind.
fn pair(old: &Path, file: &File) -> io::Result<Option<(Metadata, Metadata)>> {
    let Ok(old) = old.symlink_metadata() else { return Ok(None) };
    let new = file.metadata()?;
    Ok((old.file_type() == new.file_type()).then_some((old, new)))
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    // Not every file system has permissions to change.
    match file.metadata()?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode)),
    }
}
