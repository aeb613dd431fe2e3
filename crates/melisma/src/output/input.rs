//! Input files of a command, which no output may replace.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use melisma_kernels::lock::Mutex;

use crate::{Error, Result};

/// Identifies a file under any name.
type Identity = (u64, u64);

/// Global like the partial files: every output of the process is checked against it.
static INPUTS: Mutex<BTreeSet<(PathBuf, Identity)>> = Mutex::new(BTreeSet::new());

/// Protects the file at `path`: from now on, no [`OutputFile`](super::OutputFile) of this process
/// replaces it, under any name that leads to it. Directories, pipes, devices and missing files are
/// ignored.
pub fn protect(path: &Path) {
    if let Some(identity) = identity(path) {
        INPUTS.lock().insert((path.to_owned(), identity));
    }
}

/// Rejects a `path` that leads to an input.
///
/// # Errors
/// The file is protected by [`protect`].
pub fn refuse_input(path: &Path) -> Result<()> {
    let inputs = INPUTS.lock();
    let found = identity(path);
    // Another file may have reused the inode of a deleted input.
    let is_input = |(input, known): &(PathBuf, Identity)| found == Some(*known) && identity(input) == found;
    match found {
        Some(_) if inputs.iter().any(is_input) => Err(refused(path)),
        _ => Ok(()),
    }
}

fn refused(path: &Path) -> Error {
    Error::invalid(format!("{}: this file is an input of this command", path.display()))
        .with_hint("name another file for the output")
}

/// Rejects a `path` that leads to one of `inputs`, and protects that input. Unlike [`protect`], it
/// does not remember the others: there may be millions.
///
/// # Errors
/// As [`refuse_input`].
pub fn refuse_among<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    if let Some(found) = identity(path)
        && let Some(input) = inputs.into_iter().find(|input| identity(input) == Some(found))
    {
        protect(input);
    }
    refuse_input(path)
}

/// Rejects a `path` that leads to `input`, and remembers nothing.
///
/// # Errors
/// As [`refuse_input`].
pub fn refuse_same(path: &Path, input: &Path) -> Result<()> {
    let found = identity(path);
    if found.is_some() && found == identity(input) { Err(refused(path)) } else { Ok(()) }
}

fn identity(path: &Path) -> Option<Identity> {
    let data = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use super::super::{Existing, OutputFile, write};
    use super::*;

    #[test]
    fn inputs_are_not_replaced_under_any_name() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("in"), b"mine").unwrap();
        std::os::unix::fs::symlink("in", at("link")).unwrap();
        std::fs::hard_link(at("in"), at("twin")).unwrap();
        protect(&at("link"));
        protect(directory.path());
        for name in ["in", "./in", "link", "twin"] {
            let refused = write(&at(name), b"new", Existing::Replace).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("{name}: this file is an input of this command")), "{refused}");
        }
        assert_eq!(std::fs::read(at("in")).unwrap(), b"mine");
        write(&at("other"), b"new", Existing::Refuse).unwrap();
    }

    /// The partial file of an output has a name too.
    #[test]
    fn an_input_is_not_a_stale_partial_file() {
        let directory = tempfile::tempdir().unwrap();
        let partial = directory.path().join("out.partial");
        std::fs::write(&partial, b"mine").unwrap();
        protect(&partial);
        let refused = write(&directory.path().join("out"), b"new", Existing::Refuse).unwrap_err().to_string();
        assert!(refused.ends_with("out.partial: this file is an input of this command"), "{refused}");
        assert_eq!(std::fs::read(&partial).unwrap(), b"mine");
    }

    #[test]
    fn an_input_that_is_found_later_stays_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shard");
        std::fs::write(&path, b"mine").unwrap();
        let file = OutputFile::create(&path, Existing::Replace).unwrap();
        protect(&path);
        file.commit().unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
