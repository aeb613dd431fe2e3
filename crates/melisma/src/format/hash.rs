//! BLAKE3 of large files on several threads: hashes segments in parallel, then hashes their hashes.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use melisma_kernels::lock::Mutex;

use super::ReadAt;
use crate::runtime::thread;
use crate::{Error, Result};

/// The unit of work of a thread. It is part of the definition: another size gives other hashes.
const SEGMENT: u64 = 4 << 20;
/// Small enough to stay in a core's own cache between the read and the hashing.
const BLOCK: usize = 256 << 10;

/// A hash in hexadecimal.
pub type Digest = String;

/// Returns the hash of the file at `path`, read by `threads` threads.
///
/// # Errors
/// The file cannot be read, or becomes shorter in the meantime.
pub fn file(path: impl AsRef<Path>, threads: usize) -> Result<Digest> {
    let path = path.as_ref();
    let open = || File::open(path).map_err(|error| Error::io(path.display(), error));
    of(&open()?, threads).map_err(|error| error.at(path.display()))
}

/// Returns the hash of `source`, which does not depend on the number of threads.
///
/// # Errors
/// The source cannot be read.
pub fn of(source: &dyn ReadAt, threads: usize) -> Result<Digest> {
    let len = source.size()?;
    let n_segments = len.div_ceil(SEGMENT);
    let mut hashes =
        vec![[0; 32]; usize::try_from(n_segments).map_err(|_| Error::invalid("the file is too large to hash"))?];
    let (next, failed, first_error) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
    let done = Mutex::new(&mut hashes);
    let work = || {
        let mut block = vec![0; BLOCK.min(len as usize)];
        while !failed.load(Relaxed) {
            let index = next.fetch_add(1, Relaxed);
            if index >= n_segments {
                break;
            }
            match segment(source, index * SEGMENT..len.min((index + 1) * SEGMENT), &mut block) {
                Ok(hash) => done.lock()[index as usize] = hash,
                Err(error) => {
                    failed.store(true, Relaxed);
                    first_error.lock().get_or_insert(error);
                }
            }
        }
    };
    thread::team((1..threads.clamp(1, n_segments.clamp(1, 64) as usize)).map(|_| work), work)?;
    if let Some(error) = first_error.into_inner() {
        return Err(error);
    }
    let mut whole = blake3::Hasher::new_derive_key("melisma optimize file v1");
    whole.update(&len.to_le_bytes());
    hashes.iter().for_each(|hash| {
        whole.update(hash);
    });
    Ok(whole.finalize().to_hex().to_string())
}

fn segment(source: &dyn ReadAt, bytes: std::ops::Range<u64>, block: &mut [u8]) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut at = bytes.start;
    while at < bytes.end {
        let block = &mut block[..BLOCK.min((bytes.end - at) as usize)];
        source.read_at(at, block)?;
        hasher.update(block);
        at += block.len() as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_change_nothing_and_every_byte_counts() {
        for len in [0, 1, BLOCK, SEGMENT as usize - 1, SEGMENT as usize, 2 * SEGMENT as usize + 12_345] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
            let hash = of(&bytes, 1).unwrap();
            assert_eq!(hash, of(&bytes, 4).unwrap(), "{len}");
            assert_eq!(hash.len(), 64);
            for at in [0, len / 2, len.wrapping_sub(1)].into_iter().filter(|at| *at < len) {
                bytes[at] ^= 1;
                assert_ne!(hash, of(&bytes, 2).unwrap(), "{len}: byte {at}");
                bytes[at] ^= 1;
            }
        }
        assert_ne!(of(&vec![0u8; 8], 1).unwrap(), of(&vec![0u8; 9], 1).unwrap());
    }
}
