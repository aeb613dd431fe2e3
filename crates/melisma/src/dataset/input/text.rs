//! The text of one audio file.

use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

/// The longest text, in bytes.
pub(in crate::dataset) const MAX_TEXT: usize = 64 << 10;

/// A text that was found: where it is, and what it was. It is read again when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    /// Where its row begins in a table.
    pub(in crate::dataset) source: u64,
    pub(in crate::dataset) len: u32,
    pub(in crate::dataset) hash: u64,
}

impl Text {
    /// No text.
    pub(in crate::dataset) const NONE: Self = Self { source: u64::MAX, len: 0, hash: 0x2d06_8005_38d3_94c2 };

    pub(in crate::dataset) fn new(text: &str, source: u64) -> Result<Self> {
        if text.len() > MAX_TEXT {
            return Err(Error::invalid(format!("a text of {} bytes; at most {MAX_TEXT} are read", text.len())));
        }
        Ok(Self { source, len: text.len() as u32, hash: xxh3_64(text.as_bytes()) })
    }

    /// Returns the texts of one row, which begins at `source`.
    pub(super) fn all(cells: &[String], source: u64) -> Result<Vec<Self>> {
        cells.iter().map(|cell| Self::new(cell, source)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_an_empty_one() {
        assert_eq!(Text::NONE.hash, xxh3_64(b""));
    }
}
