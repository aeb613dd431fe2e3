//! The first bytes of a file, by calls on the file itself: stands in for a map where the system cannot copy from one
//! without the risk of a signal.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;

/// The first `len` bytes of a file.
#[derive(Debug)]
pub struct Direct {
    file: File,
    len: usize,
}

impl Direct {
    /// Returns the first `len` bytes of `file`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(file: &File, len: usize) -> Result<Self> {
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
    /// As [`Direct::read`].
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.check(at, from.len())?;
        self.file.write_all_at(from, at as u64)
    }

    fn check(&self, at: usize, n: usize) -> Result<()> {
        let len = self.file.metadata()?.len().min(self.len as u64);
        match at.checked_add(n) {
            Some(end) if end as u64 <= len => Ok(()),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}
