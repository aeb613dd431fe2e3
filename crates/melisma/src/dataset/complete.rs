//! What is already there, and what remains after the last row.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::store::Store;
use crate::runtime::output::{self, Existing};
use crate::{Error, Result};

/// The files around an output.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) output: PathBuf,
    pub(super) partial: PathBuf,
    pub(super) journal: PathBuf,
    pub(super) failures: PathBuf,
}

impl Paths {
    pub(super) fn new(output: &Path) -> Result<Self> {
        let name =
            output.file_name().ok_or_else(|| Error::invalid(format!("{}: this names no file", output.display())))?;
        let beside = |suffix: &str| {
            let mut name: OsString = name.to_owned();
            name.push(suffix);
            output.with_file_name(name)
        };
        Ok(Self {
            output: output.to_owned(),
            partial: beside(".partial"),
            journal: beside(".journal"),
            failures: beside(".failures.jsonl"),
        })
    }

    /// Removes what an unfinished build left.
    pub(super) fn clear(&self) -> Result<()> {
        for path in [&self.partial, &self.journal] {
            let removed = match path.symlink_metadata() {
                Err(_) => Ok(()),
                Ok(data) if data.is_dir() => std::fs::remove_dir_all(path),
                Ok(_) => std::fs::remove_file(path),
            };
            removed.map_err(|error| output::failed(path, error))?;
        }
        Ok(())
    }

    /// The failures of a finished build.
    pub(super) fn read_failures(&self) -> Vec<Failure> {
        let text = std::fs::read_to_string(&self.failures).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Writes `failures`, or removes an old list when there are none.
    pub(super) fn write_failures(&self, failures: &[Failure]) -> Result<()> {
        if failures.is_empty() {
            return match std::fs::remove_file(&self.failures) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(output::failed(&self.failures, error))
                }
                _ => Ok(()),
            };
        }
        let mut text = String::new();
        for failure in failures {
            text += &serde_json::to_string(failure).map_err(|error| Error::invalid(error.to_string()))?;
            text.push('\n');
        }
        output::write(&self.failures, text.as_bytes(), Existing::Replace)
    }

    /// Gives the finished partial its name.
    pub(super) fn publish(&self) -> Result<()> {
        let failed = |error| output::failed(&self.output, error);
        if self.output.is_dir() {
            std::fs::remove_dir_all(&self.output).map_err(failed)?;
        }
        std::fs::rename(&self.partial, &self.output).map_err(failed)?;
        if let Some(folder) = self.output.parent() {
            // Makes the new name survive a power cut; not every file system can, and the data are safe either way.
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        }
        match std::fs::remove_file(&self.journal) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(output::failed(&self.journal, error)),
            _ => Ok(()),
        }
    }
}

/// The plan of the finished dataset at `path`, if it is one.
pub(super) fn plan_of(path: &Path) -> Option<String> {
    Store::open(path).ok()?.layout.text("plan").map(str::to_owned)
}
