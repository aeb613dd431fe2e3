//! Text files of limited size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::{Error, Result};

/// Reads a whole text file of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let failed = |error: io::Error| {
        let error = match error.kind() {
            io::ErrorKind::InvalidData => io::Error::new(error.kind(), "not a text in UTF-8"),
            _ => error,
        };
        Error::io(path.display(), error).with_hint("check the name, and that it is a text file")
    };
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        return Err(Error::invalid(format!("{}: the file is larger than {limit} bytes", path.display())));
    }
    Ok(text)
}
