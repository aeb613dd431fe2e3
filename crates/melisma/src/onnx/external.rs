//! External data: tensors whose bytes are in a separate plain file inside the model's folder.
//!
//! Absolute paths, `..`, symbolic and hard links below the folder, and anything but plain files are
//! rejected: attackers have used each of them to read unrelated files. The only link that is
//! followed is that of a Hugging Face cache, where `snapshots/REVISION/model.onnx_data` links to a
//! file in the same model's `blobs`.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::wire::Entry;
use crate::output::protect;
use crate::text::size;
use crate::{Error, ErrorKind, Remedy, Result};

/// The location of a tensor's bytes.
#[derive(Debug, Default)]
pub(super) struct DataLocation {
    location: String,
    offset: Option<String>,
    length: Option<String>,
}

/// A source of external data.
pub(super) trait Source {
    /// Loads the `len` bytes at `place`.
    fn load(&mut self, place: &DataLocation, len: usize) -> Result<Vec<u8>>;
}

/// For models without a folder, which cannot have external data.
pub(super) struct NoFolder;

/// The folder of a model.
pub(super) struct Folder {
    /// Absolute and without links.
    base: PathBuf,
    /// Remaining bytes that may be loaded.
    left: u64,
    limit: u64,
    /// The file that was read last; tensors usually share one.
    open: Option<(String, File, u64)>,
}

impl DataLocation {
    /// Reads one key-value pair.
    pub(super) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let (mut key, mut value) = (String::new(), String::new());
        let mut fields = entry.message()?;
        while let Some(entry) = fields.next()? {
            match entry.number {
                1 => key = entry.text()?,
                2 => value = entry.text()?,
                _ => {}
            }
        }
        match key.as_str() {
            "location" => self.location = value,
            "offset" => self.offset = Some(value),
            "length" => self.length = Some(value),
            _ => {}
        }
        Ok(())
    }

    /// Returns the offset, after checking that it and the length are numbers whose sum does not
    /// overflow.
    fn range(&self, len: usize) -> Result<u64> {
        let number = |text: &Option<String>, other: u64| match text {
            None => Ok(other),
            Some(text) => {
                text.parse::<u64>().map_err(|_| Error::corrupt(format!("external data: `{text}` is not a size")))
            }
        };
        let (offset, length) = (number(&self.offset, 0)?, number(&self.length, len as u64)?);
        if length != len as u64 {
            return Err(Error::corrupt(format!("external data of {length} bytes; the shape has {len}")));
        }
        let end = offset.checked_add(length);
        end.map(|_| offset)
            .ok_or_else(|| Error::corrupt(format!("external data: offset {offset} plus {length} bytes overflows")))
    }
}

impl Source for NoFolder {
    fn load(&mut self, place: &DataLocation, _: usize) -> Result<Vec<u8>> {
        let message = format!("external data `{}` of a model that is not in a folder", place.location);
        Err(Error::unsupported(message).with_hint("give the model as a file, or save it with all data inside"))
    }
}

impl Folder {
    pub(super) fn of(model: &Path, limit: u64) -> Result<Self> {
        // A bare file name has an empty parent, which means the current folder.
        let parent = model.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let base = fs::canonicalize(parent).map_err(|error| Error::io(parent.display(), error))?;
        Ok(Self { base, left: limit, limit, open: None })
    }

    /// Opens the file at a location and returns its length.
    fn file(&mut self, location: &str) -> Result<(&File, u64)> {
        if self.open.as_ref().is_none_or(|(name, _, _)| name != location) {
            let (file, len) = open(&self.base, location)?;
            self.open = Some((location.to_owned(), file, len));
        }
        match &self.open {
            Some((_, file, len)) => Ok((file, *len)),
            None => Err(outside(location, "is not open")),
        }
    }
}

impl Source for Folder {
    fn load(&mut self, place: &DataLocation, len: usize) -> Result<Vec<u8>> {
        let offset = place.range(len)?;
        self.left = match self.left.checked_sub(len as u64) {
            Some(left) => left,
            None => return Err(too_large(&self.base, self.limit)),
        };
        let location = &place.location;
        let (file, file_len) = self.file(location)?;
        if offset + len as u64 > file_len {
            let message = format!("external data `{location}` ends at byte {file_len}, not at {}", offset + len as u64);
            return Err(Error::truncated(message));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|error| {
            Error::new(ErrorKind::Memory, format!("external data `{location}`: cannot allocate {len} bytes"))
                .with_source(error)
        })?;
        bytes.resize(len, 0);
        file.read_exact_at(&mut bytes, offset).map_err(|error| Error::io(location, error))?;
        Ok(bytes)
    }
}

/// Opens a file with a single name, after checking that every parent is a directory.
pub(super) fn open(base: &Path, location: &str) -> Result<(File, u64)> {
    if location.is_empty() || location.contains('\0') {
        return Err(outside(location, "is not a file name"));
    }
    let mut path = base.to_owned();
    let mut parts = Path::new(location).components().peekable();
    let mut seen = None;
    while let Some(part) = parts.next() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => continue,
            Component::ParentDir => return Err(outside(location, "leads out of the model's folder")),
            Component::RootDir | Component::Prefix(_) => return Err(outside(location, "is an absolute path")),
        }
        let found =
            fs::symlink_metadata(&path).map_err(|error| Error::io(format!("external data `{location}`"), error))?;
        if found.is_symlink() {
            let blob = blob(base, &path).filter(|_| parts.peek().is_none());
            path = blob.ok_or_else(|| outside(location, "is, or lies behind, a symbolic link"))?;
            seen = Some(
                fs::symlink_metadata(&path).map_err(|error| Error::io(format!("external data `{location}`"), error))?,
            );
            break;
        }
        if parts.peek().is_some() && !found.is_dir() {
            return Err(outside(location, "lies below something that is not a folder"));
        }
        seen = Some(found);
    }
    let seen = seen.ok_or_else(|| outside(location, "is not a file name"))?;
    plain(&seen, location)?;
    let file = File::open(&path).map_err(|error| Error::io(format!("external data `{location}`"), error))?;
    // The opened file must be the one that was checked, still in its place.
    let opened = file.metadata().map_err(|error| Error::io(format!("external data `{location}`"), error))?;
    plain(&opened, location)?;
    let is_same = (opened.dev(), opened.ino()) == (seen.dev(), seen.ino());
    if !is_same || fs::canonicalize(&path).ok().as_deref() != Some(&path) {
        return Err(outside(location, "changed while it was opened"));
    }
    protect(&path);
    Ok((file, opened.len()))
}

/// Resolves a link below `base`, if it leads to a blob of the same model in a Hugging Face cache.
fn blob(base: &Path, link: &Path) -> Option<PathBuf> {
    let snapshots =
        base.ancestors().skip(1).find(|folder| folder.file_name().is_some_and(|name| name == "snapshots"))?;
    let target = fs::canonicalize(link).ok()?;
    (target.parent()? == snapshots.parent()?.join("blobs")).then_some(target)
}

fn plain(found: &Metadata, location: &str) -> Result<()> {
    if !found.is_file() {
        return Err(outside(location, "is not a plain file"));
    }
    if found.nlink() != 1 {
        return Err(outside(location, "is a hard link: it has another name elsewhere"));
    }
    Ok(())
}

fn outside(location: &str, why: &str) -> Error {
    let error = Error::corrupt(format!("external data `{location}` {why}"));
    error.with_hint("external data must be plain files inside the model's folder, or blobs of its Hugging Face cache")
}

pub(super) fn too_large(path: &Path, limit: u64) -> Error {
    let message = format!("{}: the model and its data need more than {}", path.display(), size::show(limit));
    let error = Error::new(ErrorKind::Memory, message).with_hint(Remedy::RaiseMemoryLimit { least: None });
    error.or_hint("use a machine with more memory")
}
