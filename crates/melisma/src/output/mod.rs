//! Atomic output files: written to `NAME.partial`, synced, then renamed.

mod input;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Kind, Remedy, Result};
pub use input::{protect, refuse_among, refuse_input};

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
    let mut partials = PARTIALS.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// `None` for pipes and character devices, which are written in place.
    partial: Option<PathBuf>,
    file: io::BufWriter<File>,
    existing: Existing,
}

impl OutputFile {
    /// Opens `path.partial` and overwrites a stale one from an earlier process.
    ///
    /// # Errors
    /// `path` exists and must not be replaced, is an input, is a directory, cannot be written, or
    /// is being written by another process.
    pub fn create(path: &Path, existing: Existing) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Err(Error::invalid("-: this output cannot be a pipe").with_hint("name a file; ./- is one as well"));
        }
        refuse_input(path)?;
        match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => {
                return Err(
                    Error::invalid(format!("{}: this is a directory", path.display())).with_hint("name a file in it")
                );
            }
            Ok(data) if data.is_file() && existing == Existing::Refuse => return Err(already(path)),
            Ok(data) if !data.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(|error| failed(path, error))?;
                return Ok(Self { path: path.to_owned(), partial: None, file: io::BufWriter::new(file), existing });
            }
            _ => {}
        }
        let partial = beside(path)?;
        refuse_input(&partial)?;
        let file = {
            // Locked while the file is created, so that an interrupt finds every existing file.
            let mut partials = PARTIALS.lock().unwrap_or_else(PoisonError::into_inner);
            let file = open_alone(&partial, path, &partials)?;
            partials.push(partial.clone());
            file
        };
        let file = io::BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path: path.to_owned(), partial: Some(partial), file, existing })
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
        if self.existing == Existing::Refuse && self.path.exists() {
            return Err(already(&self.path));
        }
        refuse_input(&self.path)?;
        std::fs::rename(&partial, &self.path).map_err(|error| failed(&self.path, error))?;
        self.forget();
        // Makes the rename survive a power cut where the file system supports it; the data is safe
        // either way.
        if let Some(directory) = self.path.parent() {
            let _ = File::open(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
                .and_then(|directory| directory.sync_all());
        }
        Ok(())
    }

    /// Like [`commit`](Self::commit), but under another name, replacing any existing file: for the
    /// partial result of an interrupted command.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_as(mut self, path: PathBuf) -> Result<()> {
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

    /// A second handle that reads the bytes written so far.
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

    /// Its final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether earlier parts can be changed: true for files, false for pipes and devices.
    pub fn is_seekable(&self) -> bool {
        self.partial.is_some()
    }

    fn forget(&mut self) -> Option<PathBuf> {
        let partial = self.partial.take()?;
        PARTIALS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != partial);
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
        Err(_) if path.exists() && !path.is_dir() => Err(Error::invalid(format!(
            "{}: this output is a directory, and something else has its name",
            path.display()
        ))
        .with_hint("choose another name for the directory")),
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
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("choose a place that you may write to")
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some("make the directory first, or choose another"),
        _ => None,
    }
}

fn already(path: &Path) -> Error {
    Error::new(Kind::Exists, format!("{}: the file exists already", path.display()))
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

/// Opens `partial`, truncated and locked. If its last writer renamed it between opening and
/// locking, it is opened again, so that a finished output is never truncated.
fn open_alone(partial: &Path, path: &Path, ours: &[PathBuf]) -> Result<File> {
    for _ in 0..100 {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(partial);
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
    Err(Error::new(Kind::Busy, format!("{}: another process is writing this file", path.display()))
        .with_hint("wait for it to end, or choose another name"))
}

fn twice(path: &Path) -> Error {
    Error::invalid(format!("{}: two outputs of this command have this name", path.display()))
        .with_hint("give each a name of its own")
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.bin");
        let partial = directory.path().join("out.bin.partial");
        let mut file = OutputFile::create(&path, Existing::Refuse).unwrap();
        file.write_all(b"half").unwrap();
        assert!(partial.exists() && !path.exists());
        drop(file);
        assert!(!partial.exists() && !path.exists());

        std::fs::write(&partial, b"stale and longer").unwrap();
        write(&path, b"whole", Existing::Refuse).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert!(!partial.exists());
    }

    #[test]
    fn existing_files_are_refused_unless_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        write(&path, b"first", Existing::Refuse).unwrap();
        let refused = write(&path, b"second", Existing::Refuse).unwrap_err();
        assert!(refused.to_string().contains("exists already"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        write(&path, b"second", Existing::Replace).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
    }

    #[test]
    fn two_writers_do_not_mix() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut first = OutputFile::create(&path, Existing::Refuse).unwrap();
        // Both names lead to the same file.
        for name in ["out", "./out"] {
            let second = OutputFile::create(&directory.path().join(name), Existing::Refuse).unwrap_err();
            assert!(second.to_string().ends_with("two outputs of this command have this name"), "{second}");
        }
        first.write_all(b"mine").unwrap();
        first.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[cfg(unix)]
    #[test]
    fn another_process_is_not_disturbed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let other = File::create(directory.path().join("out.partial")).unwrap();
        other.lock().unwrap();
        let refused = OutputFile::create(&path, Existing::Refuse).unwrap_err();
        assert!(refused.to_string().ends_with("another process is writing this file"), "{refused}");
    }

    #[test]
    fn what_is_done_so_far_gets_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let (path, so_far) = (directory.path().join("out"), directory.path().join("out.so-far"));
        std::fs::write(&so_far, b"earlier").unwrap();
        let mut file = OutputFile::create(&path, Existing::Refuse).unwrap();
        file.write_all(b"half").unwrap();
        file.commit_as(so_far.clone()).unwrap();
        assert_eq!(std::fs::read(so_far).unwrap(), b"half");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn bad_places_give_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let missing = write(&directory.path().join("no/such/out"), b"x", Existing::Refuse).unwrap_err();
        assert!(missing.hint().unwrap().contains("directory"), "{missing}");
        let pipe = write(Path::new("-"), b"x", Existing::Replace).unwrap_err();
        assert!(pipe.to_string().contains("cannot be a pipe"), "{pipe}");
        let folder = write(directory.path(), b"x", Existing::Replace).unwrap_err();
        assert!(folder.to_string().contains("is a directory"), "{folder}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_with_a_hint() {
        let full = write(Path::new("/dev/full"), &[0; 1 << 20], Existing::Refuse).unwrap_err();
        assert_eq!(full.kind(), Kind::Io);
        assert!(full.hint().unwrap().contains("free some space"), "{full}");
    }
}
