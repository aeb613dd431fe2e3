//! The last tensor of a packed file: the unchanged header of the source, and the hash of everything
//! before the hash.

use super::VERSION;
use super::storage::{ReadAt, read};
use crate::format::safetensors::Header;
use crate::{Error, ErrorKind, Result};

const MAGIC: [u8; 8] = *b"MELISMA\n";
/// Bytes before the source's header.
const FIXED_LEN: u64 = 64;
/// The BLAKE3 hash of the file, its last bytes.
pub(super) const HASH_LEN: usize = 32;

/// The contents of a trailer besides the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Bytes of the source file.
    pub(super) source_len: u64,
    /// BLAKE3 hash of a delta's base file; zeros if there is none.
    pub(super) base: [u8; 32],
    /// The source's header: length field, JSON and padding.
    pub(super) header: Vec<u8>,
}

impl Trailer {
    /// Returns the bytes of a trailer, including the hash, for a source header of `header_len` bytes.
    pub(super) fn stored_len(header_len: u64) -> u64 {
        FIXED_LEN + header_len + HASH_LEN as u64
    }

    /// Returns the trailer without the hash.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.source_len.to_le_bytes());
        bytes.extend_from_slice(&(self.header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.base);
        bytes.extend_from_slice(&self.header);
        bytes
    }

    /// Reads the trailer of `len` bytes at `at`, and the source header in it.
    pub(super) fn read(file: &dyn ReadAt, at: u64, len: u64) -> Result<(Self, Header)> {
        let header_len = len.checked_sub(FIXED_LEN + HASH_LEN as u64).filter(|&len| len >= 8);
        let header_len =
            header_len.ok_or_else(|| Error::corrupt(format!("the trailer has {len} bytes, too few for its fields")))?;
        // Fits into the file: the header has been checked.
        let bytes = read(file, at, (FIXED_LEN + header_len) as usize)?;
        let (fixed, header) = bytes.split_at(FIXED_LEN as usize);
        let number = |at: usize| fixed[at..at + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        let mut base = [0; 32];
        base.copy_from_slice(&fixed[32..]);
        let trailer = Self { source_len: number(16), base, header: header.to_vec() };
        if !fixed.starts_with(&MAGIC) || number(24) != header_len {
            return Err(Error::corrupt("the trailer is damaged"));
        }
        if number(8) != u64::from(VERSION) {
            let message = format!("format version {}; this build reads {VERSION}", number(8));
            return Err(Error::new(ErrorKind::Version, message));
        }
        let (length, json) = header.split_at(8);
        if length != (json.len() as u64).to_le_bytes() {
            return Err(Error::corrupt("the source's header does not have its own length"));
        }
        let data_len = trailer.source_len.checked_sub(header_len).ok_or_else(|| {
            let len = trailer.source_len;
            Error::corrupt(format!(
                "the trailer says that the source has {len} bytes; its header alone has {header_len}"
            ))
        })?;
        let source = Header::parse(json, data_len).map_err(|error| error.at("the source"))?;
        Ok((trailer, source))
    }
}
