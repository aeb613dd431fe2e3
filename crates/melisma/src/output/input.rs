//! The files that a command reads, which no output of it may replace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// What tells two files apart, whatever they are called.
type Identity = (u64, u64);

/// Static, as the partial files are: every output of the process is compared with it.
static INPUTS: Mutex<BTreeSet<(PathBuf, Identity)>> = Mutex::new(BTreeSet::new());

/// From now on, no [`OutputFile`](super::OutputFile) of this process replaces the file at `path`, under any name that
/// leads to it. Folders, pipes and devices, and what is not there, are passed over.
pub fn protect(path: &Path) {
    if let Some(identity) = identity(path) {
        INPUTS.lock().unwrap_or_else(PoisonError::into_inner).insert((path.to_owned(), identity));
    }
}

/// Refuses a `path` that leads to an input.
///
/// # Errors
/// When [`protect`] was told of the file.
pub fn refuse_input(path: &Path) -> Result<()> {
    let inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = identity(path);
    // An input that is gone may have left its numbers to another file.
    let is_input = |(input, known): &(PathBuf, Identity)| found == Some(*known) && identity(input) == found;
    match found {
        Some(_) if inputs.iter().any(is_input) => {
            Err(Error::invalid(format!("{}: this file is an input of this command", path.display()))
                .with_hint("name another file for the output"))
        }
        _ => Ok(()),
    }
}

/// Refuses a `path` that leads to one of `inputs`, and protects that one. Unlike [`protect`] it remembers none of the others,
/// of which there may be millions.
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

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((data.dev(), data.ino()))
}

/// Where files have no numbers, the hash of the name without links stands for the file.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let path = path.canonicalize().ok().filter(|path| path.is_file())?;
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    Some((0, hasher.finish()))
}

#[cfg(all(test, unix))]
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
