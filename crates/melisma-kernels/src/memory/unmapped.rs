//! Stands in for `mapped.rs` on systems that cannot copy from a map without the risk of a signal: the
//! same calls on the file itself.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;

/// The first `len` bytes of a file.
#[derive(Debug)]
pub struct Mapped {
    file: File,
    len: usize,
}

/// The purpose of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Sequential reads.
    ReadAhead,
    /// Writes, at any position.
    Write,
}

impl Mapped {
    /// Returns the first `len` bytes of `file`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(file: &File, len: usize, _: Access) -> Result<Self> {
        Ok(Self { file: file.try_clone()?, len })
    }

    /// Copies bytes starting at `at` into `to`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has become shorter; otherwise the system's error.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.check(at, to.len())?;
        self.file.read_exact_at(to, at as u64)
    }

    /// Copies `from` to the bytes starting at `at`.
    ///
    /// # Errors
    /// As [`Mapped::read`].
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.check(at, from.len())?;
        self.file.write_all_at(from, at as u64)
    }

    /// Does nothing: there are no pages to bring into memory.
    pub fn populate(&self, _: usize, _: usize) {}

    fn check(&self, at: usize, n: usize) -> Result<()> {
        let len = self.file.metadata()?.len().min(self.len as u64);
        match at.checked_add(n) {
            Some(end) if end as u64 <= len => Ok(()),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A whole file in memory.
#[derive(Debug)]
pub struct InPlace {
    bytes: Vec<u8>,
}

impl InPlace {
    /// Reads `file`.
    ///
    /// # Errors
    /// The file is empty, or the system refuses.
    pub fn new(file: &File) -> Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::FileTooLarge)?;
        if len == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| ErrorKind::OutOfMemory)?;
        bytes.resize(len, 0);
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self { bytes })
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Does nothing: a full disk makes a write fail, and raises no signal.
///
/// # Errors
/// Never.
pub fn reserve(_: &File, _: u64) -> Result<()> {
    Ok(())
}
