//! The memory that packing and unpacking need. Under a limit, fewer tiles are in flight; the output
//! does not change.

use melisma_kernels::rans::{SEGMENT_STEP, Split};

use super::blob::Blob;
use super::in_order::Workers;
use super::layout::{Layout, TILE_SIZES};
use super::tile_size;
use crate::format::safetensors::Header;
use crate::runtime::memory::{self, Budget, Reservation, Space};
use crate::{Error, Result};

/// Blocks for hashing and writing files.
const BLOCKS: u64 = (1 << 20) + (1 << 18);
/// Tables of an encoder or a decoder, independent of the tile.
const TABLES: u64 = 1 << 18;
/// Names, shapes and offsets take a few times the bytes of the header.
const PER_HEADER_BYTE: u64 = 8;
/// An index entry, as read and as written.
const PER_TILE: u64 = 64;
/// Results in flight per worker, if there is room.
const AHEAD: usize = 2;

/// The memory that a stage needs, in bytes: a fixed part, a part per worker, and a part per result
/// in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) fixed: u64,
    pub(super) worker: u64,
    pub(super) result: u64,
}

impl Need {
    /// Returns the bytes with one worker and one result.
    pub(super) fn least(&self) -> u64 {
        self.fixed + self.worker + self.result
    }

    /// Returns as many workers as fit into the budget, at most `threads`, and their memory.
    ///
    /// # Errors
    /// `Memory`: one worker does not fit.
    pub(super) fn workers(&self, threads: usize, budget: &Budget) -> Result<(Workers, Reservation)> {
        let free = budget.free(Space::Host);
        check(self.least(), budget)?;
        let room = free - self.fixed;
        let fit = |bytes: u64, each: u64| usize::try_from(bytes / each.max(1)).unwrap_or(usize::MAX);
        let threads = fit(room, self.worker + self.result).min(threads).max(1);
        let of_workers = self.worker * threads as u64;
        let window = if threads == 1 { 1 } else { fit(room - of_workers, self.result).min(AHEAD * threads) };
        let held = budget.reserve(Space::Host, self.fixed + of_workers + self.result * window as u64)?;
        Ok((Workers { threads, window }, held))
    }
}

/// Fails if the budget has no room for `least` bytes.
pub(super) fn check(least: u64, budget: &Budget) -> Result<()> {
    let free = budget.free(Space::Host);
    if least <= free {
        return Ok(());
    }
    let limit = budget.limit(Space::Host).unwrap_or(u64::MAX);
    Err(refused(limit.saturating_sub(free).saturating_add(least), limit))
}

/// Returns the error for a limit below `needed`.
pub(super) fn refused(needed: u64, limit: u64) -> Error {
    memory::too_small("one row of tiles at a time", needed, limit)
}

/// Resizes `bytes` to `len` without spare capacity, which the budget would not count.
pub(super) fn resize(bytes: &mut Vec<u8>, len: usize) {
    bytes.reserve_exact(len.saturating_sub(bytes.len()));
    bytes.resize(len, 0);
}

/// Returns an upper bound for the bytes of a record: no mode makes a plane longer than its bytes
/// plus its tables.
fn record_len(tile_len: u64) -> u64 {
    tile_len + tile_len / 64 + 4096
}

/// Returns the memory of an encoder for its largest tile.
fn encoder(split: Split, tile_len: u64) -> u64 {
    let n = tile_len / split.width() as u64;
    // All planes; and for one of them pairs, escapes, and words of two bytes.
    TABLES + tile_len + n / 2 + n + 2 * n
}

/// Returns the memory for a header and the indices of its tiles.
pub(super) fn known(header_len: u64, n_tiles: u64) -> u64 {
    PER_HEADER_BYTE * header_len + PER_TILE * n_tiles + BLOCKS
}

/// Returns the memory for choosing tile sizes.
pub(super) fn choosing(header: &Header) -> Result<Need> {
    let mut need = Need { fixed: known(header.len, 0), ..Need::default() };
    for tensor in &header.tensors {
        let layout = Layout::of(tensor, TILE_SIZES[TILE_SIZES.len() - 1])?;
        let Some([rows, cols]) = tile_size::part(&layout) else { continue };
        let part = rows * cols * layout.split.width() as u64;
        let tile = part.min(layout.tile_len(0) as u64);
        need.worker = need.worker.max(part + tile + encoder(layout.split, tile));
    }
    Ok(need)
}

/// Returns the memory for packing tensors of these layouts.
pub(super) fn encoding(header: &Header, layouts: &[Layout], segment: Option<u32>) -> Need {
    let mut need = Need::default();
    let (mut n_tiles, mut index_len) = (0, 0);
    for layout in layouts.iter().filter(|layout| layout.n_tiles() > 0) {
        let Shape { run, tile, tiles_of_run, is_strided } = Shape::of(layout);
        let index = segment.map_or(0, |segment| index_bound(layout, segment));
        n_tiles += layout.n_tiles();
        index_len += index * layout.n_tiles();
        let strided = if is_strided { tile } else { 0 };
        let indexing = if segment.is_some() { TABLES + tile + index } else { 0 };
        need.worker = need.worker.max(encoder(layout.split, tile) + strided + indexing);
        let records = tiles_of_run * (record_len(tile) + index + PER_TILE);
        need.result = need.result.max(run + records.min(record_len(run) + tiles_of_run * (4096 + index)));
    }
    need.fixed = known(header.len, n_tiles) + index_len;
    need
}

/// Returns the memory for decoding tensors of these layouts, with records of the largest possible size.
pub(super) fn verifying(header: &Header, layouts: &[Layout]) -> Need {
    let mut need = Need::default();
    let mut n_tiles = 0;
    for layout in layouts.iter().filter(|layout| layout.n_tiles() > 0) {
        let shape = Shape::of(layout);
        n_tiles += layout.n_tiles();
        need = need.max(shape.decoding(record_len(shape.tile)));
    }
    Need { fixed: known(header.len, n_tiles), ..need }
}

/// Returns the memory for decoding tensors of a file whose header and indices take `known` bytes.
pub(super) fn decoding(known: u64, blobs: &[Blob]) -> Need {
    let of_blob = |blob: &Blob| {
        let record = blob.tiles.iter().map(|tile| u64::from(tile.len)).max().unwrap_or(0);
        Shape::of(&blob.layout).decoding(record)
    };
    let blobs = blobs.iter().filter(|blob| !blob.tiles.is_empty());
    Need { fixed: known, ..blobs.map(of_blob).fold(Need::default(), Need::max) }
}

impl Need {
    /// Returns the memory that suffices for either.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            fixed: self.fixed.max(other.fixed),
            worker: self.worker.max(other.worker),
            result: self.result.max(other.result),
        }
    }
}

/// The largest parts of a layout, in bytes.
struct Shape {
    run: u64,
    tile: u64,
    tiles_of_run: u64,
    is_strided: bool,
}

impl Shape {
    fn of(layout: &Layout) -> Self {
        let run = layout.run(0);
        let [_, step, row_len] = layout.rows_in_run(0);
        Self {
            run: run.bytes.end - run.bytes.start,
            tile: layout.tile_len(0) as u64,
            tiles_of_run: run.tiles.end - run.tiles.start,
            is_strided: step != row_len,
        }
    }

    fn decoding(&self, record: u64) -> Need {
        let strided = if self.is_strided { self.tile } else { 0 };
        Need { fixed: 0, worker: TABLES + record + strided, result: self.run }
    }
}

/// Returns an upper bound for the bytes of a tile's index: every plane is coded.
fn index_bound(layout: &Layout, segment: u32) -> u64 {
    let width = layout.split.width() as u64;
    let segments = layout.tile_len(0) as u64 / width / u64::from(segment.max(SEGMENT_STEP)) + 4;
    segments * (128 + 144 * width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Remedy};

    #[test]
    fn fewer_workers_under_a_limit_and_none_below_the_least() {
        let need = Need { fixed: 100, worker: 30, result: 20 };
        for (limit, threads, window) in [(150, 1, 1), (199, 1, 1), (200, 2, 2), (220, 2, 3), (1000, 4, 8)] {
            let budget = Budget::new(limit, 0);
            let (workers, held) = need.workers(4, &budget).unwrap();
            assert_eq!((workers.threads, workers.window), (threads, window), "{limit}");
            assert!(held.bytes() <= limit);
        }
        let error = need.workers(4, &Budget::new(149, 0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert_eq!(error.to_string(), "one row of tiles at a time needs 150B; the memory limit is 149B");
        assert_eq!(Remedy::of(&error), [Remedy::RaiseMemoryLimit { least: Some(1 << 20) }]);
        // What is in use already counts.
        let budget = Budget::new(3_072_000, 0);
        let _held = budget.reserve(Space::Host, 3_071_900).unwrap();
        let error = need.workers(4, &budget).unwrap_err();
        assert!(error.to_string().ends_with("needs 3072050 bytes; the memory limit is 3072000 bytes"), "{error}");
        assert_eq!(Remedy::of(&error), [Remedy::RaiseMemoryLimit { least: Some(3 << 20) }]);
    }
}
