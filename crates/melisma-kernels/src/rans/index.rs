//! The index: snapshots of the decoder after each segment of a slice, so that segments can be
//! decoded in parallel.
//!
//! A slice is cut into segments of equally many elements, the last one shorter. Segments are
//! numbered slice by slice, and each slice uses as many numbers as the first one. For each segment
//! the index holds the state at its end: the 32 lanes of the hash, then for each coded plane the
//! words and the escapes taken (u32 each), 8 zero bytes, and the 32 states. Slices that fit in one
//! segment have no index. The decoder of a segment compares its end with the index, and the decoder
//! of the last one with the slice's own end, so a wrong index is detected like a wrong stream.

use super::record::{MAX_PLANES, Mode, Tile};
use super::{LANES, Slices, Split};
use crate::{Error, Result};

/// Segments are multiples of this many elements.
pub const SEGMENT_STEP: u32 = 2048;
/// Bytes of the hash's lanes.
const HASH_LEN: usize = 4 * LANES;
/// Bytes of a coded plane's part.
const PLANE_LEN: usize = 16 + 4 * LANES;

/// A tile's part of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Where it begins in the packed bytes, a multiple of 16.
    pub at: u64,
    /// Elements of a segment, a multiple of [`SEGMENT_STEP`].
    pub len: u32,
}

impl Segments {
    pub(super) fn check(&self, split: Split, tile: &Tile, n: usize, packed_len: u64) -> Result<()> {
        if self.len == 0 || !self.len.is_multiple_of(SEGMENT_STEP) {
            return Err(Error::invalid(format!("segments of {}, not a multiple of {SEGMENT_STEP}", self.len)));
        }
        let end = self.at.checked_add(len(split, tile, n, self.len)? as u64);
        if end.is_none_or(|end| end > packed_len) || !self.at.is_multiple_of(16) {
            return Err(Error::invalid(format!("bad index at byte {} of {packed_len}", self.at)));
        }
        Ok(())
    }
}

/// Returns the bytes of the index of a tile of `n` elements; 0 if a slice fits in one segment.
///
/// # Errors
/// `Version`: the tile has a mode that this build does not know.
pub fn len(split: Split, tile: &Tile, n: usize, segment: u32) -> Result<usize> {
    if Slices::of(n).len <= segment as usize {
        return Ok(0);
    }
    Ok(n_segments(n, segment as usize) * entry_len(split, tile)?)
}

fn entry_len(split: Split, tile: &Tile) -> Result<usize> {
    let mut n_coded = 0;
    for plane in 0..split.width().min(MAX_PLANES) {
        n_coded += usize::from(matches!(tile.mode(plane)?, Mode::Bytes | Mode::Pairs));
    }
    Ok(HASH_LEN + PLANE_LEN * n_coded)
}

/// Returns the number of segments of a tile of `n` elements, or of its slices if `segment` is 0.
pub(super) fn n_segments(n: usize, segment: usize) -> usize {
    let slices = Slices::of(n);
    slices.count * if segment == 0 { 1 } else { slices.len.div_ceil(segment).max(1) }
}

/// Collects the entries of one tile.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// Elements per segment; 0 if nothing is collected.
    pub(super) segment: usize,
    pub(super) bytes: Vec<u8>,
    entry_len: usize,
    per_slice: usize,
}

impl Collector {
    pub(super) fn begin(&mut self, split: Split, tile: &Tile, slices: Slices) -> Result<()> {
        if self.segment == 0 {
            return Ok(());
        }
        self.bytes.clear();
        self.bytes.resize(len(split, tile, slices.n, self.segment as u32)?, 0);
        self.entry_len = entry_len(split, tile)?;
        self.per_slice = slices.len.div_ceil(self.segment).max(1);
        Ok(())
    }

    /// Returns the entry of the segment of `slice` that ends at element `end` of `len`, if there is
    /// one.
    pub(super) fn entry(&mut self, slice: usize, end: usize, len: usize) -> Option<Entry<'_>> {
        let ends = self.segment > 0 && end > 0 && (end == len || end.is_multiple_of(self.segment));
        if !ends || self.bytes.is_empty() {
            return None;
        }
        let number = slice * self.per_slice + (end - 1) / self.segment;
        Some(Entry(self.bytes.get_mut(number * self.entry_len..)?))
    }
}

/// An entry, written from front to back.
pub(super) struct Entry<'a>(&'a mut [u8]);

impl Entry<'_> {
    pub(super) fn put(&mut self, words: impl IntoIterator<Item = u32>) {
        for word in words {
            let Some((to, rest)) = std::mem::take(&mut self.0).split_first_chunk_mut::<4>() else { return };
            *to = word.to_le_bytes();
            self.0 = rest;
        }
    }
}
