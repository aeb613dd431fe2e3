//! One hash per row over every column except `mel`, which `checksum` covers.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::store::{HASH_COLUMN, Layout, Store};
use crate::{Error, Result};

/// Bytes of the small columns that are read at once.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// A row without its spectrogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The name of its file, without the column's zero padding.
    pub(super) name: &'a [u8],
    pub(super) file: u64,
    pub(super) start: u64,
    pub(super) valid_frames: u32,
    pub(super) status: u8,
    pub(super) checksum: u64,
}

impl Entry<'_> {
    /// XXH3 of the numbers in column order, 8 bytes each, then the name.
    pub(super) fn hash(&self) -> u64 {
        let numbers = [self.file, self.start, self.valid_frames.into(), self.status.into(), self.checksum];
        let mut bytes = numbers.map(u64::to_le_bytes).concat();
        bytes.extend(self.name);
        xxh3_64(&bytes)
    }
}

/// The small columns of a dataset.
#[derive(Debug)]
pub(super) struct Table<'a> {
    store: &'a Store,
    /// Index and bytes per row of path, file_index, start_sample, valid_frames, status and
    /// checksum.
    columns: [(usize, usize); 6],
    hash: Option<usize>,
}

/// Consecutive rows.
#[derive(Debug)]
pub(super) struct Block {
    bytes: [Vec<u8>; 6],
    sizes: [usize; 6],
    hashes: Vec<u8>,
}

impl<'a> Table<'a> {
    pub(super) fn new(store: &'a Store) -> Result<Self> {
        let layout: &Layout = &store.layout;
        let mut columns = [(0, 0); 6];
        let names = ["path", "file_index", "start_sample", "valid_frames", "status", "checksum"];
        // The width of the first column is free.
        for ((to, name), size) in columns.iter_mut().zip(names).zip([None, Some(8), Some(8), Some(4), Some(1), Some(8)])
        {
            let place = layout.column(name)?;
            let row_bytes = layout.columns[place].row_bytes();
            if size.is_some_and(|size| size != row_bytes) {
                return Err(Error::corrupt(format!("`{name}` has {row_bytes} bytes a row")));
            }
            *to = (place, row_bytes);
        }
        let hash = layout.column(HASH_COLUMN).ok().filter(|&place| layout.columns[place].row_bytes() == 8);
        Ok(Self { store, columns, hash })
    }

    pub(super) fn has_hashes(&self) -> bool {
        self.hash.is_some()
    }

    /// Rows in a block.
    pub(super) fn rows_per_block(&self) -> u64 {
        let bytes: usize = self.columns.iter().map(|column| column.1).sum::<usize>() + 8;
        (BLOCK_BYTES / bytes).max(1) as u64
    }

    pub(super) fn read(&self, rows: Range<u64>) -> Result<Block> {
        let n = (rows.end - rows.start) as usize;
        let column = |place: usize, size: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; n * size];
            self.store.read(place, rows.start, &mut bytes)?;
            Ok(bytes)
        };
        let mut bytes: [Vec<u8>; 6] = Default::default();
        for (to, (place, size)) in bytes.iter_mut().zip(self.columns) {
            *to = column(place, size)?;
        }
        let hashes = self.hash.map_or(Ok(Vec::new()), |place| column(place, 8))?;
        Ok(Block { bytes, sizes: self.columns.map(|column| column.1), hashes })
    }

    /// Calls `each` with every row, in order.
    pub(super) fn each(&self, mut each: impl FnMut(Entry<'_>)) -> Result<()> {
        let (n_rows, step) = (self.store.layout.n_rows, self.rows_per_block());
        let mut first = 0;
        while first < n_rows {
            let rows = first..(first + step).min(n_rows);
            let block = self.read(rows.clone())?;
            (0..(rows.end - rows.start) as usize).for_each(|row| each(block.entry(row)));
            first = rows.end;
        }
        Ok(())
    }
}

impl Block {
    pub(super) fn entry(&self, row: usize) -> Entry<'_> {
        let cell = |column: usize| &self.bytes[column][row * self.sizes[column]..][..self.sizes[column]];
        let number = |column: usize| cell(column).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let name = cell(0);
        let end = name.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Entry {
            name: &name[..end],
            file: number(1),
            start: number(2),
            valid_frames: number(3) as u32,
            status: number(4) as u8,
            checksum: number(5),
        }
    }

    /// The recorded hash of a row.
    pub(super) fn hash(&self, row: usize) -> Option<u64> {
        self.hashes.get(8 * row..)?.first_chunk().copied().map(u64::from_le_bytes)
    }
}
