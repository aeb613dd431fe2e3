//! Atomic output files: written to `NAME.partial`, synced, then renamed. An output that is a symbolic
//! link is written to the file that the link leads to. A file that is replaced keeps its permissions,
//! and its owner where the system allows it.

mod input;
mod place;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use melisma_kernels::lock::Mutex;

use crate::{Error, ErrorKind, Remedy, Result};
pub use input::{protect, refuse_among, refuse_input, refuse_same};
pub use place::target;
pub(crate) use place::{adopt_rights, conceal};

/// What to do with an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Fail.
    Refuse,
    /// Replace it when the new file is complete.
    Replace,
}

/// The partial files of this process, so that an interrupt can remove them.
static PARTIALS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every partial file of this process. Call it right before the process ends: no thread can
/// create another one afterwards.
pub fn remove_partials() {
    let mut partials = PARTIALS.lock();
    for path in partials.drain(..) {
        // A failure here cannot be handled, and the name identifies the file.
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(partials);
}

/// A file being written for `path`. Dropping it without [`commit`](Self::commit) leaves nothing
/// behind.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// The file that `path` leads to.
    target: PathBuf,
    /// `None` for pipes and character devices, which are written in place.
    partial: Option<PathBuf>,
    file: io::BufWriter<File>,
    existing: Existing,
}

impl OutputFile {
    /// Opens `path.partial` and overwrites a stale one from an earlier process.
    ///
    /// # Errors
    /// `path` exists and must not be replaced, is a link that leads nowhere, is an input, is a
    /// directory, cannot be written, or is being written by another process.
    pub fn create(path: &Path, existing: Existing) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Err(Error::invalid("-: this output cannot be a pipe").with_hint("name a file; ./- is one as well"));
        }
        refuse_input(path)?;
        match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => {
                return Err(
                    Error::invalid(format!("{}: this is a folder", path.display())).with_hint("name a file in it")
                );
            }
            Ok(data) if data.is_file() && existing == Existing::Refuse => return Err(already(path)),
            Ok(data) if !data.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(|error| failed(path, error))?;
                let (path, target) = (path.to_owned(), path.to_owned());
                return Ok(Self { path, target, partial: None, file: io::BufWriter::new(file), existing });
            }
            _ => {}
        }
        let target = target(path, existing)?;
        let partial = beside(&target)?;
        refuse_input(&partial)?;
        let file = {
            // Locked while the file is created, so that an interrupt finds every existing file.
            let mut partials = PARTIALS.lock();
            let file = open_alone(&partial, path, &partials, if target.exists() { 0o600 } else { 0o666 })?;
            partials.push(partial.clone());
            file
        };
        conceal(&target, &file).map_err(|error| failed(path, error))?;
        let file = io::BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path: path.to_owned(), target, partial: Some(partial), file, existing })
    }

    /// Syncs the complete file to disk and renames it to its final name.
    ///
    /// # Errors
    /// The disk is full, the file cannot be synced or renamed, or its name leads to an input that
    /// was found after opening. Nothing is left behind.
    pub fn commit(mut self) -> Result<()> {
        self.file.flush().map_err(|error| failed(&self.path, error))?;
        let Some(partial) = self.partial.clone() else { return Ok(()) };
        self.file.get_ref().sync_all().map_err(|error| failed(&self.path, error))?;
        if self.existing == Existing::Refuse && self.target.symlink_metadata().is_ok() {
            return Err(already(&self.path));
        }
        refuse_input(&self.target)?;
        adopt_rights(&self.target, self.file.get_ref()).map_err(|error| failed(&self.path, error))?;
        std::fs::rename(&partial, &self.target).map_err(|error| failed(&self.path, error))?;
        self.forget();
        // Makes the rename survive a power cut where the file system supports it; the data is safe
        // either way.
        if let Some(directory) = self.target.parent() {
            let _ = File::open(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
                .and_then(|directory| directory.sync_all());
        }
        Ok(())
    }

    /// Works like [`commit`](Self::commit), but under another name beside [`target`](Self::target),
    /// replacing any existing file: for the partial result of an interrupted command.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_as(mut self, path: PathBuf) -> Result<()> {
        self.target = path.clone();
        self.path = path;
        self.existing = Existing::Replace;
        self.commit()
    }

    /// Overwrites bytes that were already written.
    ///
    /// # Errors
    /// It is a pipe or a device, or cannot be written.
    pub fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        use std::io::{Seek, SeekFrom};
        self.regular()?;
        let patched = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(bytes));
        patched.and_then(|()| self.file.seek(SeekFrom::End(0))).map_err(|error| failed(&self.path, error))?;
        Ok(())
    }

    /// Returns a second handle that reads the bytes written so far.
    ///
    /// # Errors
    /// It is a pipe or a device, or cannot be read.
    pub fn reader(&mut self) -> Result<File> {
        let partial = self.regular()?.to_owned();
        self.file.flush().map_err(|error| failed(&self.path, error))?;
        File::open(partial).map_err(|error| failed(&self.path, error))
    }

    fn regular(&self) -> Result<&Path> {
        self.partial.as_deref().ok_or_else(|| {
            Error::invalid(format!("{}: not a regular file, which this output must be", self.path.display()))
        })
    }

    /// Returns its final path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that the path leads to: another one if the path is a symbolic link.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns where its bytes are until it is complete; `None` for pipes and devices.
    pub fn unfinished(&self) -> Option<&Path> {
        self.partial.as_deref()
    }

    /// Returns whether earlier parts can be changed: true for files, false for pipes and devices.
    pub fn is_seekable(&self) -> bool {
        self.partial.is_some()
    }

    fn forget(&mut self) -> Option<PathBuf> {
        let partial = self.partial.take()?;
        PARTIALS.lock().retain(|path| *path != partial);
        Some(partial)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for OutputFile {
    /// Reads written bytes back, from the [`Seek`] position; not for pipes and devices.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.flush()?;
        self.file.get_mut().read(bytes)
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, place: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(partial) = self.forget() {
            // A drop cannot report errors; the name identifies the file.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// Writes all of `bytes` to `path` as an [`OutputFile`].
///
/// # Errors
/// Those of [`OutputFile::create`] and [`OutputFile::commit`].
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<()> {
    let mut file = OutputFile::create(path, existing)?;
    file.write_all(bytes).map_err(|error| failed(path, error))?;
    file.commit()
}

/// Creates the directory `path` for outputs, and its parents, unless it exists.
///
/// # Errors
/// It cannot be created, or the path is not a directory.
pub fn create_directory(path: &Path) -> Result<()> {
    match std::fs::create_dir_all(path) {
        Err(_) if path.symlink_metadata().is_ok() && !path.is_dir() => {
            Err(Error::invalid(format!("{}: this output is a folder, and something else has its name", path.display()))
                .with_hint("choose another name for the folder"))
        }
        made => made.map_err(|error| failed(path, error)),
    }
}

/// Wraps an I/O error about the output `path`, with a hint on the common causes.
pub fn failed(path: &Path, error: io::Error) -> Error {
    let hint = hint(error.kind());
    hinted(Error::io(path.display(), error), hint)
}

/// Adds the output `path` to an error of its writer, with a hint on the common causes.
pub fn named(path: &Path, error: Error) -> Error {
    let hint = error.io_source().and_then(|source| hint(source.kind()));
    hinted(error.at(path.display()), hint)
}

fn hinted(error: Error, hint: Option<&str>) -> Error {
    match hint {
        Some(hint) if error.hint().is_none() => error.with_hint(hint),
        _ => error,
    }
}

fn hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("free some space, or write to another disk"),
        io::ErrorKind::FileTooLarge => Some("raise the limit on the size of files: `ulimit -f unlimited`"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("choose a place that you may write to")
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some("make the folder first, or choose another"),
        _ => None,
    }
}

fn already(path: &Path) -> Error {
    Error::new(ErrorKind::Exists, format!("{}: the file exists already", path.display()))
        .with_hint(Remedy::Replace)
        .or_hint("choose another name")
}

fn beside(path: &Path) -> Result<PathBuf> {
    let mut name = match path.file_name() {
        Some(name) => name.to_owned(),
        None => return Err(Error::invalid(format!("{}: this does not name a file", path.display()))),
    };
    name.push(".partial");
    Ok(path.with_file_name(name))
}

/// Opens `partial`, truncated and locked, with `mode` if it is new. If its last writer renamed it
/// between opening and locking, it is opened again, so that a finished output is never truncated.
fn open_alone(partial: &Path, path: &Path, ours: &[PathBuf], mode: u32) -> Result<File> {
    for _ in 0..100 {
        if partial.is_symlink() {
            // What it leads to is not ours.
            std::fs::remove_file(partial).map_err(|error| failed(path, error))?;
        }
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(mode).open(partial);
        let file = opened.map_err(|error| failed(path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if ours.iter().any(|partial| is_same(&file, partial)) => {
                return Err(twice(path));
            }
            Err(TryLockError::WouldBlock) => break,
            // On file systems without locks, the last writer wins.
            Err(TryLockError::Error(_)) => {}
        }
        if is_same(&file, partial) {
            file.set_len(0).map_err(|error| failed(path, error))?;
            return Ok(file);
        }
    }
    Err(Error::new(ErrorKind::Busy, format!("{}: another process is writing this file", path.display()))
        .with_hint("wait for it to end, or choose another name"))
}

fn twice(path: &Path) -> Error {
    Error::invalid(format!("{}: two outputs of this command have this name", path.display()))
        .with_hint("give each a name of its own")
}

fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
