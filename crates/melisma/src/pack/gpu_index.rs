//! The tensor `__melisma_index__`, which a file may have or not: where decoders stand after every segment of a tile, so
//! that a GPU gives each segment to a warp of its own.

use melisma_kernels::rans::{SEGMENT_STEP, Segments, index_len};

use super::blob::{ALIGN, Blob};
use super::storage::{ReadAt, read};
use crate::{Error, Kind, Result};

/// Its name, the last one before the trailer.
pub(super) const NAME: &str = "__melisma_index__";
/// Elements of a segment where nothing else is asked for.
pub const SEGMENT: u32 = 4096;

const MAGIC: [u8; 4] = *b"MLIX";
const VERSION: u32 = 1;
const HEADER_LEN: u64 = 16;

/// The beginning of the tensor; the tiles' indices follow in the order of the file.
pub(super) fn header(segment: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&segment.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// An index whose header was read and checked; its entries are checked by whoever decodes with them.
#[derive(Debug, Clone)]
pub(super) struct GpuIndex {
    segment: u32,
    /// For each blob, where each tile's part begins in the file, and where the last one ends.
    starts: Vec<Vec<u64>>,
}

impl GpuIndex {
    /// Reads the index of `blobs`, which lies in the file from `at` on with `len` bytes.
    pub(super) fn read(file: &dyn ReadAt, blobs: &[Blob], at: u64, len: u64) -> Result<Self> {
        Self::parse(file, blobs, at, len).map_err(|error| error.at(NAME))
    }

    fn parse(file: &dyn ReadAt, blobs: &[Blob], at: u64, len: u64) -> Result<Self> {
        if len < HEADER_LEN {
            return Err(Error::corrupt(format!("an index of {len} bytes")));
        }
        let stored = read(file, at, HEADER_LEN as usize)?;
        let number = |at: usize| u32::from_le_bytes([stored[at], stored[at + 1], stored[at + 2], stored[at + 3]]);
        if !stored.starts_with(&MAGIC) || number(12) != 0 {
            return Err(Error::corrupt("this is not an index".to_owned()));
        }
        if number(4) != VERSION {
            let message = format!("format version {}; this build reads {VERSION}", number(4));
            return Err(Error::new(Kind::Version, message));
        }
        let segment = number(8);
        if segment == 0 || !segment.is_multiple_of(SEGMENT_STEP) {
            return Err(Error::corrupt(format!("segments of {segment} elements")));
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

    /// The part of a tile: where it is in the file, and how long it is; none where the tile needs no index.
    pub(super) fn of(&self, blob: usize, tile: usize) -> Option<(Segments, u64)> {
        let &[at, end] = self.starts.get(blob)?.get(tile..tile + 2)? else { return None };
        (end > at).then_some((Segments { at, len: self.segment }, end - at))
    }
}
