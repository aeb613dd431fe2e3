//! The optional tensor `__melisma_index__`. It stores the decoder state after every segment of a
//! tile, so that a GPU can decode each segment in its own warp.

use melisma_kernels::rans::{SEGMENT_STEP, Segments, index_len};

use super::blob::{ALIGN, Blob};
use super::storage::{ReadAt, read};
use crate::{Error, ErrorKind, Result};

/// The tensor's name. It comes right before the trailer.
pub(super) const NAME: &str = "__melisma_index__";
/// The default number of elements in a segment.
pub const SEGMENT: u32 = 4096;

const MAGIC: [u8; 4] = *b"MLIX";
const VERSION: u32 = 1;
const HEADER_LEN: u64 = 16;

/// Returns the start of the tensor; the indices of the tiles follow in file order.
pub(super) fn header(segment: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&segment.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// An index whose header has been read and checked. The decoder checks the entries.
#[derive(Debug, Clone)]
pub(super) struct GpuIndex {
    segment: u32,
    /// For each blob, the file offset of each tile's part, and the end of the last one.
    starts: Vec<Vec<u64>>,
}

impl GpuIndex {
    /// Reads the index of `blobs`, which has `len` bytes from `at` on in the file.
    pub(super) fn read(file: &dyn ReadAt, blobs: &[Blob], at: u64, len: u64) -> Result<Self> {
        Self::parse(file, blobs, at, len).map_err(|error| error.at(NAME))
    }

    fn parse(file: &dyn ReadAt, blobs: &[Blob], at: u64, len: u64) -> Result<Self> {
        if len < HEADER_LEN {
            return Err(Error::corrupt(format!("the GPU index cannot have {len} bytes")));
        }
        let stored = read(file, at, HEADER_LEN as usize)?;
        let number = |at: usize| u32::from_le_bytes([stored[at], stored[at + 1], stored[at + 2], stored[at + 3]]);
        if !stored.starts_with(&MAGIC) || number(12) != 0 {
            return Err(Error::corrupt("this is not an index".to_owned()));
        }
        if number(4) != VERSION {
            let message = format!("format version {}; this build reads {VERSION}", number(4));
            return Err(Error::new(ErrorKind::Version, message));
        }
        let segment = number(8);
        if segment == 0 || !segment.is_multiple_of(SEGMENT_STEP) {
            return Err(Error::corrupt(format!("segments of {segment}, not a multiple of {SEGMENT_STEP}")));
        }
        let mut next = at + HEADER_LEN;
        let mut starts = Vec::with_capacity(blobs.len());
        for blob in blobs {
            let mut of_blob = Vec::with_capacity(blob.tiles.len() + 1);
            for (number, tile) in blob.tiles.iter().enumerate() {
                of_blob.push(next);
                let n = blob.layout.tile_len(number as u64) / blob.layout.split.width();
                next += index_len(blob.layout.split, tile, n, segment)? as u64;
            }
            of_blob.push(next);
            starts.push(of_blob);
        }
        if next.next_multiple_of(ALIGN) != at + len {
            return Err(Error::corrupt(format!("{} bytes for indices that take {}", len, next - at)));
        }
        Ok(Self { segment, starts })
    }

    /// Returns the file offset and length of a tile's part; `None` if the tile needs no index.
    pub(super) fn of(&self, blob: usize, tile: usize) -> Option<(Segments, u64)> {
        let &[at, end] = self.starts.get(blob)?.get(tile..tile + 2)? else { return None };
        (end > at).then_some((Segments { at, len: self.segment }, end - at))
    }
}
