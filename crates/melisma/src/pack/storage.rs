//! Outputs for packed and unpacked files.

use std::io::Write;

pub use crate::format::ReadAt;
use crate::format::read_at::ends_at;
pub(super) use crate::format::read_at::read;
use crate::output::{self, OutputFile};
use crate::{Error, Result};

/// An output that is written front to back.
pub trait Append {
    /// Appends bytes.
    ///
    /// # Errors
    /// The write fails; the message names the output.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

/// An output for packed files.
pub trait Sink: Append {
    /// Replaces bytes that were appended before.
    ///
    /// # Errors
    /// The write fails.
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Lets `check` read what has been written.
    ///
    /// # Errors
    /// The read fails, or `check` fails.
    fn check(&mut self, check: &mut dyn FnMut(&dyn ReadAt) -> Result<()>) -> Result<()>;
}

impl Append for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Fills the slice from the front and leaves the unfilled rest.
impl Append for &mut [u8] {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|_| Error::invalid(format!("{} bytes more than there is room for", bytes.len())))
    }
}

impl Append for OutputFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|error| output::failed(self.path(), error))
    }
}

impl Sink for Vec<u8> {
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let at = usize::try_from(at).map_err(|_| ends_at(at))?;
        self.get_mut(at..at + bytes.len()).ok_or_else(|| ends_at(at as u64))?.copy_from_slice(bytes);
        Ok(())
    }

    fn check(&mut self, check: &mut dyn FnMut(&dyn ReadAt) -> Result<()>) -> Result<()> {
        check(self)
    }
}

impl Sink for OutputFile {
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(at, bytes)
    }

    fn check(&mut self, check: &mut dyn FnMut(&dyn ReadAt) -> Result<()>) -> Result<()> {
        check(&self.reader()?)
    }
}

/// XORs `bytes` with the bytes of `file` from `at` on.
pub(super) fn exclusive_or(file: &dyn ReadAt, at: u64, bytes: &mut [u8]) -> Result<()> {
    let mut block = [0; 1 << 14];
    for (index, part) in bytes.chunks_mut(block.len()).enumerate() {
        let block = &mut block[..part.len()];
        file.read_at(at + (index << 14) as u64, block)?;
        part.iter_mut().zip(block).for_each(|(byte, base)| *byte ^= *base);
    }
    Ok(())
}
