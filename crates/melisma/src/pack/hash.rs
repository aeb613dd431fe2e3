//! BLAKE3 of files.

use super::storage::ReadAt;
use super::trailer::HASH_LEN;
use crate::Result;

/// Returns BLAKE3 of a whole file.
pub(super) fn hash(file: &dyn ReadAt) -> Result<[u8; HASH_LEN]> {
    hash_first(file, file.size()?)
}

/// Returns BLAKE3 of the first `len` bytes.
pub(super) fn hash_first(file: &dyn ReadAt, len: u64) -> Result<[u8; HASH_LEN]> {
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; len.min(1 << 20) as usize];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(block.len() as u64) as usize;
        file.read_at(at, &mut block[..part])?;
        hasher.update(&block[..part]);
        at += part as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}
