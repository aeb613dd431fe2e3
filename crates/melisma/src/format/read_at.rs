//! Positioned reads from files and memory.

use std::fs::File;

use crate::{Error, Result};

/// A byte source that threads can read in parallel.
pub trait ReadAt: Sync {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// A system call fails.
    fn size(&self) -> Result<u64>;

    /// Fills `out` from `at` on.
    ///
    /// # Errors
    /// `Truncated` if there are fewer bytes; `Io` if a system call fails.
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()>;
}

impl ReadAt for [u8] {
    fn size(&self) -> Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let start = usize::try_from(at).map_err(|_| ends_at(at))?;
        let bytes = start.checked_add(out.len()).and_then(|end| self.get(start..end)).ok_or_else(|| ends_at(at))?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for &[u8] {
    fn size(&self) -> Result<u64> {
        (**self).size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        (**self).read_at(at, out)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> Result<u64> {
        self.as_slice().size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.as_slice().read_at(at, out)
    }
}

impl ReadAt for File {
    fn size(&self) -> Result<u64> {
        Ok(self.metadata().map_err(|error| Error::io("reading", error))?.len())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        use std::os::unix::fs::FileExt;
        self.read_exact_at(out, at).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ends_at(at),
            _ => Error::io("reading", error),
        })
    }
}

pub(crate) fn ends_at(at: u64) -> Error {
    Error::truncated(format!("the file ends within what begins at byte {at}"))
}

/// Reads `len` bytes. The caller has checked `len` against the size of the file.
pub(crate) fn read(file: &dyn ReadAt, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_at(at, &mut bytes)?;
    Ok(bytes)
}
