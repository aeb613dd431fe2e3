//! Bytes from a file or, for `-`, from stdin.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use melisma::{Error, Result};

/// An open input.
pub struct Input {
    name: String,
    len: Option<u64>,
    bytes: Box<dyn Read>,
}

/// Returns whether `path` means a pipe.
pub fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Input {
    /// Opens `path`.
    pub fn open(path: &Path) -> Result<Self> {
        if is_pipe(path) {
            return Ok(Self { name: "stdin".to_owned(), len: None, bytes: Box::new(io::stdin()) });
        }
        let name = path.display().to_string();
        let failed = |error| Error::io(&name, error).with_hint("check the name, and that you may read it");
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        if data.is_dir() {
            return Err(Error::invalid(format!("{name}: this is a folder")).with_hint("name a file in it"));
        }
        Ok(Self { len: data.is_file().then_some(data.len()), name, bytes: Box::new(file) })
    }

    /// Returns the name to use in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length, if known.
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// Reads the bytes available, waiting for the first one; returns 0 only at the end.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        loop {
            match self.bytes.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| Error::io(&self.name, error)),
            }
        }
    }

    /// Returns the whole input, or `None` if it is longer than `limit` bytes.
    pub fn read_all(mut self, limit: u64) -> Result<Option<Vec<u8>>> {
        if self.len.is_some_and(|len| len > limit) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.bytes.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(|error| Error::io(&self.name, error))?;
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }
}
