//! Handles existing output, and publishes the dataset after the last row.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::guard;
use super::paths::{Paths, beside};
use crate::dataset::failure::Failure;
use crate::output::{self, Existing};
use crate::{Error, Result};

impl Paths {
    /// Removes the files of an unfinished build.
    pub(in crate::dataset) fn clear(&self) -> Result<()> {
        guard::remove(&self.partial)?;
        guard::remove(&self.journal)
    }

    /// Returns the failures recorded by a finished build.
    pub(in crate::dataset) fn read_failures(&self) -> Vec<Failure> {
        let text = std::fs::read_to_string(&self.failures).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Writes `failures`, or removes an old list if there are none.
    pub(in crate::dataset) fn write_failures(&self, failures: &[Failure]) -> Result<()> {
        if failures.is_empty() {
            return match std::fs::remove_file(&self.failures) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(output::failed(&self.failures, error)),
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

    /// Renames the finished partial to the output's name. If either is a folder, it cannot be
    /// replaced atomically: the old output is renamed until the new one is in place.
    pub(in crate::dataset) fn publish(&self, existing: Existing) -> Result<()> {
        let failed = |error| output::failed(&self.output, error);
        let is_there = self.output.exists();
        if is_there && existing == Existing::Refuse {
            return Err(guard::already(&self.output, ""));
        }
        guard::output(&self.output)?;
        self.adopt_rights().map_err(failed)?;
        let aside = (is_there && (self.output.is_dir() || self.partial.is_dir())).then(|| self.aside());
        if let Some(aside) = &aside {
            std::fs::rename(&self.output, aside).map_err(failed)?;
        }
        if let Err(error) = std::fs::rename(&self.partial, &self.output) {
            if let Some(aside) = &aside {
                std::fs::rename(aside, &self.output).map_err(|error| output::failed(aside, error))?;
            }
            return Err(failed(error));
        }
        if let Some(folder) = self.output.parent() {
            // Makes the new name survive a power cut. Not every file system supports this; the data
            // are safe either way.
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        guard::remove(&self.journal)?;
        aside.map_or(Ok(()), |aside| guard::remove(&aside))
    }

    /// Hides the unfinished dataset from everybody who may not use the one that it replaces.
    pub(in crate::dataset) fn conceal(&self) -> Result<()> {
        let concealed = File::open(&self.partial).and_then(|partial| output::conceal(&self.output, &partial));
        concealed.map_err(|error| output::failed(&self.partial, error))
    }

    /// Gives the finished dataset the permissions and the owner of the one that it replaces.
    fn adopt_rights(&self) -> io::Result<()> {
        if self.partial.is_dir() {
            for entry in std::fs::read_dir(&self.partial)? {
                let entry = entry?;
                output::adopt_rights(&self.output.join(entry.file_name()), &File::open(entry.path())?)?;
            }
        }
        // If it is gone, the rename says so.
        File::open(&self.partial).map_or(Ok(()), |partial| output::adopt_rights(&self.output, &partial))
    }

    /// Returns an unused name for the output that is being replaced.
    fn aside(&self) -> PathBuf {
        let mut aside = beside(&self.output, ".replaced");
        let mut n = 1;
        while aside.symlink_metadata().is_ok() {
            n += 1;
            aside = beside(&self.output, &format!(".replaced-{n}"));
        }
        aside
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::super::identity::plan_of;
    use super::*;
    use crate::DType;
    use crate::dataset::store::{Column, Kind, Layout, Store};

    fn dataset(path: &Path, plan: &str) {
        let attributes = Map::from_iter([("plan".to_owned(), Value::from(plan))]);
        let layout = Layout { n_rows: 2, columns: vec![Column::flat("status", DType::U8)], attributes };
        Store::create(path, Kind::Npy, layout).unwrap();
    }

    #[test]
    fn the_old_dataset_stays_until_the_new_one_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(&folder.path().join("a")).unwrap();
        dataset(&paths.output, "old");
        // The rename fails, as if the process had ended there.
        paths.publish(Existing::Replace).unwrap_err();
        assert_eq!(plan_of(&paths.output).unwrap(), "old");
        // A dataset that happens to have the other name is not touched.
        dataset(&folder.path().join("a.replaced"), "chance");
        dataset(&paths.partial, "new");
        paths.publish(Existing::Refuse).unwrap_err();
        paths.publish(Existing::Replace).unwrap();
        assert_eq!(plan_of(&paths.output).unwrap(), "new");
        assert_eq!(plan_of(&folder.path().join("a.replaced")).unwrap(), "chance");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        // A file added during the build is noticed.
        dataset(&paths.partial, "newer");
        std::fs::write(paths.output.join("notes.txt"), b"mine").unwrap();
        paths.publish(Existing::Replace).unwrap_err();
        assert_eq!(plan_of(&paths.output).unwrap(), "new");
    }
}
