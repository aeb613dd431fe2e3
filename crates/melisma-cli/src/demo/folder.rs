//! The demo's folder: the report, and the files that the commands of the report read.

use std::path::{Path, PathBuf};

use melisma::output::{self, Existing};
use melisma::{Error, Remedy, Result};

use crate::terminal;

/// The report.
pub const REPORT: &str = "report.html";
/// The sentence that the step `speak` leaves for later steps.
pub const SPOKEN: &str = "speech.wav";
/// The files of the commands, each written by its step.
const FILES: [&str; 6] = [SPOKEN, "clip.wav", "wavs", "model.safetensors", "decoder.onnx", "z.npy"];

/// A folder in which the commands of the report run.
pub struct Folder {
    path: PathBuf,
    existing: Existing,
}

impl Folder {
    /// Creates the folder.
    ///
    /// # Errors
    /// It has a file of the demo already, and none may be replaced.
    pub fn create(path: &Path, existing: Existing) -> Result<Self> {
        output::create_directory(path)?;
        let folder = Self { path: path.to_owned(), existing };
        let names = std::iter::once(REPORT).chain(FILES);
        match names.map(|name| path.join(name)).find(|path| path.symlink_metadata().is_ok()) {
            Some(path) if existing == Existing::Refuse => {
                Err(Error::invalid(format!("{}: the file exists already", terminal::name(&path)))
                    .with_hint(Remedy::Replace)
                    .or_hint("choose another folder"))
            }
            _ => Ok(folder),
        }
    }

    /// Returns the path of `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns whether existing files are replaced.
    pub fn existing(&self) -> Existing {
        self.existing
    }

    /// Writes one of the [`FILES`], or a file in one of them.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        debug_assert!(FILES.iter().any(|file| Path::new(name).starts_with(file)), "{name} is not checked for");
        let path = self.path(name);
        output::write(&path, bytes, self.existing)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_somebody_else_is_replaced_without_being_asked() {
        for name in FILES.into_iter().chain([REPORT]) {
            let home = tempfile::tempdir().unwrap();
            std::fs::write(home.path().join(name), "mine").unwrap();
            let error = Folder::create(home.path(), Existing::Refuse).err().unwrap();
            assert!(error.to_string().ends_with(&format!("{name}: the file exists already")), "{error}");
            assert!(Folder::create(home.path(), Existing::Replace).is_ok());
            assert_eq!(std::fs::read_to_string(home.path().join(name)).unwrap(), "mine");
        }
    }
}
