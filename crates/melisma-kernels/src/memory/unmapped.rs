//! Stands in for `mapped.rs` on systems that cannot copy from a map without the risk of a signal: the
//! same calls on the file itself.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;

use super::direct::Direct;

/// The first `len` bytes of a file.
#[derive(Debug)]
pub struct Mapped(Direct);

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
        Direct::new(file, len).map(Self)
    }

    /// Copies bytes starting at `at` into `to`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has become shorter; otherwise the system's error.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.0.read(at, to)
    }

    /// Copies `from` to the bytes starting at `at`.
    ///
    /// # Errors
    /// As [`Mapped::read`].
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.0.write(at, from)
    }

    /// Does nothing: there are no pages to bring into memory.
    pub fn populate(&self, _: usize, _: usize) {}
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
