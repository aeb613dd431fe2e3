//! The output of a build and the files beside it.

use std::path::{Path, PathBuf};

use super::is_lines;
use crate::output::{self, Existing};
use crate::{Error, Result};

/// The output of a build and the files beside it.
#[derive(Debug, Clone)]
pub(in crate::dataset) struct Paths {
    pub(in crate::dataset) output: PathBuf,
    pub(in crate::dataset) partial: PathBuf,
    pub(in crate::dataset) journal: PathBuf,
    pub(in crate::dataset) failures: PathBuf,
    /// Beside lines only.
    pub(in crate::dataset) origin: Option<PathBuf>,
}

impl Paths {
    /// Returns the paths beside `output`. A link counts as what it leads to: the files lie beside that.
    pub(in crate::dataset) fn new(output: &Path) -> Result<Self> {
        let output = &output::target(output, Existing::Replace)?;
        if output.file_name().is_none() {
            return Err(Error::invalid(format!("{}: this names no file", output.display())));
        }
        Ok(Self {
            output: output.to_owned(),
            partial: beside(output, ".partial"),
            journal: beside(output, ".journal"),
            failures: beside(output, ".failures.jsonl"),
            origin: is_lines(output).then(|| origin_of(output)),
        })
    }
}

/// Returns the file that tells what the lines at `path` were made from. It is beside the lines themselves if `path`
/// is a link.
pub(in crate::dataset) fn origin_of(path: &Path) -> PathBuf {
    beside(&output::target(path, Existing::Replace).unwrap_or_else(|_| path.to_owned()), ".origin.json")
}

/// Returns `path` with `suffix` at the end of its name.
pub(in crate::dataset) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
