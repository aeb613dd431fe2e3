//! Temporary folders.

use std::path::{Path, PathBuf};

use melisma::{Error, Result};

/// A temporary folder, removed on drop.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Creates a new folder for `name` among the system's temporary files.
    pub(crate) fn create(name: &str) -> Result<Self> {
        Self::create_in(&std::env::temp_dir(), name)
    }

    pub(crate) fn create_in(base: &Path, name: &str) -> Result<Self> {
        let folder = Self(base.join(format!("melisma-bench-{name}-{}", std::process::id())));
        let _ = std::fs::remove_dir_all(&folder.0);
        std::fs::create_dir_all(&folder.0).map_err(|error| Error::io(folder.0.display(), error))?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> String {
        self.0.display().to_string()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).map_err(|error| Error::io(path.display(), error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A drop cannot report errors, and the folder is temporary.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
