//! Stores rows as HDF5, safetensors or npy: a header, and columns at fixed offsets. Any thread
//! writes any row without a lock.
//!
//! ```no_run
//! use melisma::dataset::store::Store;
//!
//! let store = Store::open("train.h5")?;
//! let mel = store.layout.column("mel")?;
//! let mut row = vec![0; store.layout.columns[mel].row_bytes()];
//! store.read(mel, 0, &mut row)?;
//! # Ok::<(), melisma::Error>(())
//! ```

pub(super) mod change;
mod complete;
pub(super) mod guard;
pub(super) mod hash;
#[doc(hidden)]
pub mod hdf5;
pub(super) mod identity;
#[doc(hidden)]
pub mod journal;
mod layout;
pub(super) mod lines;
mod npy;
pub(super) mod paths;
mod safetensors;
pub(super) mod verify;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use melisma_kernels::memory::mapped::{Access, Mapped, reserve};

pub(super) use layout::{
    COLUMNS, Extent, HASH_COLUMN, INPUTS, KEPT_COLUMNS, KIND, TOKEN_COLUMNS, TOKENS, is_column_name, offsets_of,
};
pub use layout::{Column, ColumnType, Layout};

use crate::{Error, Remedy, Result, output};

const EXPECTED: &str = "name a dataset that Melisma built";

/// The file format of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// One HDF5 file.
    Hdf5,
    /// One safetensors file.
    Safetensors,
    /// A folder of npy files and `dataset.json`.
    Npy,
}

impl Kind {
    /// Returns the kind called `name`, or the one that the suffix of `path` implies. The suffix `.npy` alone implies
    /// none: a dataset is a folder of such files.
    ///
    /// # Errors
    /// The name or the suffix is unknown.
    pub fn choose(name: Option<&str>, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        match name.unwrap_or(suffix) {
            "hdf5" | "h5" | "hdf" => Ok(Self::Hdf5),
            "safetensors" => Ok(Self::Safetensors),
            "npy" if name.is_none() => {
                let folder = path.with_extension("");
                Err(Error::invalid(format!("{}: a dataset is a folder of .npy files, not one of them", path.display()))
                    .with_hint(format!("name a folder without a suffix, as in {}", folder.display()))
                    .or_hint("use a name that ends with .h5 or .safetensors"))
            }
            "npy" | "" => Ok(Self::Npy),
            other => Err(Error::invalid(match name {
                Some(_) => format!("unknown kind of dataset `{other}`"),
                None => format!("{}: unknown output suffix `.{other}`", path.display()),
            })
            .with_hint(Remedy::use_store(&["hdf5", "safetensors", "npy"]))
            .or_hint("use a name that ends with .h5 or .safetensors")),
        }
    }
}

/// The location of a column's first row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ColumnLocation {
    file: usize,
    offset: u64,
}

/// The layout of one file of a dataset.
struct FilePlan {
    path: PathBuf,
    header: Vec<u8>,
    len: u64,
}

/// A dataset on disk.
#[derive(Debug)]
pub struct Store {
    /// The columns and attributes.
    pub layout: Layout,
    paths: Vec<PathBuf>,
    files: Vec<File>,
    places: Vec<ColumnLocation>,
    /// Maps of the files, if writes go through them.
    maps: Vec<Mapped>,
}

impl Store {
    /// Creates the files at `path` with every row zero. The dataset is valid as soon as it has this
    /// name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn create(path: impl AsRef<Path>, kind: Kind, layout: Layout) -> Result<Self> {
        let path = path.as_ref();
        let (plans, places) = lay_out(path, kind, &layout);
        if kind == Kind::Npy {
            std::fs::create_dir_all(path).map_err(|error| output::failed(path, error))?;
        }
        // The last one names the columns of a folder, which tells those of a dataset from other files.
        for plan in plans.iter().rev() {
            let mut name = plan.path.clone().into_os_string();
            name.push(".new");
            let beside = PathBuf::from(name);
            let write = || {
                let mut file = File::create(&beside)?;
                file.write_all(&plan.header)?;
                file.set_len(plan.len)?;
                std::fs::rename(&beside, &plan.path)
            };
            write().map_err(|error| output::failed(&plan.path, error))?;
        }
        Self::attach(plans, places, layout)
    }

    /// Opens the files at `path` that [`Store::create`] made for the same `layout`.
    ///
    /// # Errors
    /// A file is missing, or has a different size or header.
    pub fn reopen(path: impl AsRef<Path>, kind: Kind, layout: Layout) -> Result<Self> {
        let path = path.as_ref();
        let (plans, places) = lay_out(path, kind, &layout);
        for plan in &plans {
            let failed = |error| output::failed(&plan.path, error);
            let file = File::open(&plan.path).map_err(failed)?;
            let len = file.metadata().map_err(failed)?.len();
            let mut header = vec![0; plan.header.len()];
            if len != plan.len || file.read_exact_at(&mut header, 0).is_err() || header != plan.header {
                return Err(Error::corrupt(format!("{}: its header is another", plan.path.display())));
            }
        }
        Self::attach(plans, places, layout)
    }

    /// Opens a dataset of any kind for reading.
    ///
    /// # Errors
    /// The file is not a Melisma dataset, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let at = |error: Error| error.at(path.display());
        if path.is_dir() {
            return npy::open(path).map_err(at);
        }
        if is_lines(path) {
            return Err(
                Error::invalid(format!("{}: lines have no columns", path.display())).with_hint("read them as JSON")
            );
        }
        let file = File::open(path).map_err(|error| Error::io(path.display(), error).with_hint(EXPECTED))?;
        let mut start = [0; 8];
        file.read_exact_at(&mut start, 0).map_err(|_| {
            Error::truncated(format!("{}: too short for a dataset", path.display())).with_hint(EXPECTED)
        })?;
        if start == hdf5::SIGNATURE {
            hdf5::open(path, file).map_err(at)
        } else {
            safetensors::open(path, file).map_err(at)
        }
    }

    fn attach(plans: Vec<FilePlan>, places: Vec<ColumnLocation>, layout: Layout) -> Result<Self> {
        let open = |plan: &FilePlan| {
            let file = File::options().read(true).write(true).open(&plan.path);
            file.map_err(|error| output::failed(&plan.path, error))
        };
        let files = plans.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { layout, paths: plans.into_iter().map(|plan| plan.path).collect(), files, places, maps: Vec::new() })
    }

    /// Directs writes into maps of the files, which many threads can use at once. If the system
    /// cannot map them, writes stay direct.
    pub fn map(&mut self) {
        let map = |file: &File| Mapped::new(file, usize::try_from(file.metadata()?.len()).unwrap_or(0), Access::Write);
        self.maps = self.files.iter().map(map).collect::<std::io::Result<_>>().unwrap_or_default();
    }

    /// Allocates disk space for mapped files.
    ///
    /// # Errors
    /// The disk is full.
    pub fn reserve(&self) -> Result<()> {
        for ((file, path), _) in self.files.iter().zip(&self.paths).zip(&self.maps) {
            let reserved = file.metadata().and_then(|data| reserve(file, data.len()));
            reserved.map_err(|error| output::failed(path, error))?;
        }
        Ok(())
    }

    /// Announces that `n` rows of a column will be written from row `first` on.
    pub fn announce(&self, column: usize, first: u64, n: u64) {
        let row_bytes = self.layout.columns[column].row_bytes() as u64;
        let ColumnLocation { file, offset } = self.places[column];
        if let Some(map) = self.maps.get(file) {
            map.populate((offset + first * row_bytes) as usize, (n * row_bytes) as usize);
        }
    }

    /// Writes entries of a column from entry `first` on.
    ///
    /// # Errors
    /// The disk is full, or the write fails.
    ///
    /// # Panics
    /// The rows are not within the column.
    pub fn write(&self, column: usize, first: u64, bytes: &[u8]) -> Result<()> {
        let row_bytes = self.layout.columns[column].row_bytes() as u64;
        let len = self.layout.len(&self.layout.columns[column]);
        assert!(first * row_bytes + bytes.len() as u64 <= len * row_bytes, "rows beyond the dataset");
        let ColumnLocation { file, offset } = self.places[column];
        let at = offset + first * row_bytes;
        // A map cannot report a full disk; the system call can.
        if self.maps.get(file).is_some_and(|map| map.write(at as usize, bytes).is_ok()) {
            return Ok(());
        }
        let written = self.files[file].write_all_at(bytes, at);
        written.map_err(|error| output::failed(&self.paths[file], error))
    }

    /// Reads entries of a column from entry `first` on.
    ///
    /// # Errors
    /// The file is shorter than its header says, or the read fails.
    pub fn read(&self, column: usize, first: u64, bytes: &mut [u8]) -> Result<()> {
        self.read_bytes(column, first * self.layout.columns[column].row_bytes() as u64, bytes)
    }

    /// Reads bytes of a column from byte `first` on.
    pub(super) fn read_bytes(&self, column: usize, first: u64, bytes: &mut [u8]) -> Result<()> {
        let ColumnLocation { file, offset } = self.places[column];
        let read = self.files[file].read_exact_at(bytes, offset + first);
        read.map_err(|error| Error::io(self.paths[file].display(), error))
    }

    /// Returns each column with the file that holds it and the offset of its first entry, for maps of the files.
    pub fn places(&self) -> impl Iterator<Item = (&Column, &Path, u64)> {
        let place = |(column, place): (_, &ColumnLocation)| (column, self.paths[place.file].as_path(), place.offset);
        self.layout.columns.iter().zip(&self.places).map(place)
    }

    /// Waits until everything is on disk.
    ///
    /// # Errors
    /// The disk is full, or the system call fails.
    pub fn sync(&self) -> Result<()> {
        for (file, path) in self.files.iter().zip(&self.paths) {
            file.sync_data().map_err(|error| output::failed(path, error))?;
        }
        Ok(())
    }

    /// Locks the dataset for writing while it is open; false if another process holds the lock.
    pub fn lock(&self) -> bool {
        // On file systems without locks, the last writer wins.
        !matches!(self.files.first().map(File::try_lock), Some(Err(std::fs::TryLockError::WouldBlock)))
    }
}

/// Returns whether `path` names a file of lines, which is not a store.
pub(super) fn is_lines(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("jsonl"))
}

fn lay_out(path: &Path, kind: Kind, layout: &Layout) -> (Vec<FilePlan>, Vec<ColumnLocation>) {
    match kind {
        Kind::Hdf5 => hdf5::lay_out(path, layout),
        Kind::Safetensors => safetensors::lay_out(path, layout),
        Kind::Npy => npy::lay_out(path, layout),
    }
}

#[cfg(test)]
mod tests;
