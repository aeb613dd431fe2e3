//! One hash per row over every column except the values (`mel` or `codes`), which `checksum`
//! covers.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::{HASH_COLUMN, Layout, Store};
use crate::{Error, Result};

/// Bytes of the small columns that are read at once.
pub(in crate::dataset) const BLOCK_BYTES: usize = 256 << 10;
/// The most bytes of a path or a text of tokens.
pub(in crate::dataset) const MAX_CELL: u64 = 96 << 10;
/// Columns of tokens that exist if the codes were decoded again and compared with the audio.
pub(in crate::dataset) const MEASURED: [&str; 2] = ["snr_db", "log_mel_distance"];

/// A row without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dataset) struct Entry<'a> {
    /// The name of its file, without the column's zero padding.
    pub(in crate::dataset) name: &'a [u8],
    /// The text of tokens, and the bits of [`MEASURED`]; `None` for spectrograms.
    pub(in crate::dataset) tokens: Option<(&'a [u8], [u64; 2])>,
    /// What a table says about tokens beside the text.
    pub(in crate::dataset) kept: &'a [Vec<u8>],
    pub(in crate::dataset) file: u64,
    /// The first sample of a segment, or the bits of a file's seconds.
    pub(in crate::dataset) place: u64,
    /// Frames with audio.
    pub(in crate::dataset) frames: u64,
    pub(in crate::dataset) status: u8,
    pub(in crate::dataset) checksum: u64,
}

impl Entry<'_> {
    /// Returns XXH3 of the numbers in column order, 8 bytes each, then the texts.
    pub(in crate::dataset) fn hash(&self) -> u64 {
        let numbers = [self.file, self.place, self.frames, self.status.into(), self.checksum];
        let mut bytes = numbers.map(u64::to_le_bytes).concat();
        if let Some((_, measured)) = self.tokens {
            bytes.extend([measured[0], measured[1], self.name.len() as u64].map(u64::to_le_bytes).concat());
        }
        bytes.extend(self.name);
        bytes.extend(self.tokens.map_or(&[][..], |(text, _)| text));
        for kept in self.kept {
            bytes.extend(kept);
            bytes.extend((kept.len() as u64).to_le_bytes());
        }
        xxh3_64(&bytes)
    }

    /// Returns the numbers that the plan determines.
    pub(in crate::dataset) fn planned(&self) -> Vec<u64> {
        let text = self.tokens.map(|(text, _)| xxh3_64(text));
        let kept = self.kept.iter().map(|kept| xxh3_64(kept));
        [self.file, self.place, self.frames].into_iter().chain(text).chain(kept).collect()
    }
}

/// A row as it was read.
pub(in crate::dataset) struct Found<'a> {
    pub(in crate::dataset) row: u64,
    pub(in crate::dataset) entry: Entry<'a>,
    /// The recorded hash.
    pub(in crate::dataset) hash: Option<u64>,
    /// Its entries of the column of values.
    pub(in crate::dataset) values: Range<u64>,
    /// Whether its offsets are in order.
    pub(in crate::dataset) is_placed: bool,
}

/// The small columns of a dataset.
#[derive(Debug)]
pub(in crate::dataset) struct Table<'a> {
    store: &'a Store,
    /// Index and bytes per row of `file_index`, `start_sample` or `seconds`, `status`, `checksum`,
    /// then of the columns that only some datasets have.
    numbers: Vec<(usize, usize)>,
    texts: Texts,
    /// Where in `numbers` each optional column is.
    measured: Option<usize>,
    hash: Option<usize>,
}

#[derive(Debug)]
enum Texts {
    /// `path`, zero-padded, and `valid_frames`, as indices into the numbers.
    Padded { path: usize, frames: usize },
    /// Offsets of the codes, path, text and what is kept, as indices of columns, with the columns themselves.
    Ragged(Vec<(usize, usize)>),
}

impl<'a> Table<'a> {
    pub(in crate::dataset) fn new(store: &'a Store) -> Result<Self> {
        let layout: &Layout = &store.layout;
        let mut numbers = Vec::new();
        // The width of a padded path is free.
        let mut add = |name: &str, size: Option<usize>| -> Result<usize> {
            let place = layout.column(name)?;
            let row_bytes = layout.columns[place].row_bytes();
            if size.is_some_and(|size| size != row_bytes) {
                return Err(Error::corrupt(format!("`{name}` has {row_bytes} bytes a row")));
            }
            numbers.push((place, row_bytes));
            Ok(numbers.len() - 1)
        };
        let is_tokens = layout.is_tokens();
        add("file_index", Some(8))?;
        add(if is_tokens { "seconds" } else { "start_sample" }, Some(8))?;
        add("status", Some(1))?;
        add("checksum", Some(8))?;
        let has = |name: &str| layout.column(name).is_ok();
        let mut measured = None;
        let texts = if is_tokens {
            if has(MEASURED[0]) {
                measured = Some(add(MEASURED[0], Some(4))?);
                add(MEASURED[1], Some(4))?;
            }
            let column = |name: &str| layout.column(name);
            let pair = |(values, offsets): &(String, String)| Ok((column(offsets)?, column(values)?));
            let all = layout.ragged().iter().map(pair).collect::<Result<Vec<(usize, usize)>>>()?;
            let has_offsets = all.iter().all(|pair| layout.columns[pair.0].row_bytes() == 8);
            if !has_offsets || all[1..].iter().any(|pair| layout.columns[pair.1].row_bytes() != 1) {
                return Err(Error::corrupt("offsets have 8 bytes each, and texts 1"));
            }
            Texts::Ragged(all)
        } else {
            Texts::Padded { path: add("path", None)?, frames: add("valid_frames", Some(4))? }
        };
        let hash = layout.column(HASH_COLUMN).ok().filter(|&place| layout.columns[place].row_bytes() == 8);
        let hash = hash.map(|_| add(HASH_COLUMN, Some(8))).transpose()?;
        Ok(Self { store, numbers, texts, measured, hash })
    }

    pub(in crate::dataset) fn has_hashes(&self) -> bool {
        self.hash.is_some()
    }

    /// Returns the number of rows in a block.
    pub(in crate::dataset) fn rows_per_block(&self) -> u64 {
        let bytes: usize = self.numbers.iter().map(|column| column.1).sum();
        (BLOCK_BYTES / bytes).max(1) as u64
    }

    /// Calls `each` with the rows of `range`, in order.
    pub(in crate::dataset) fn each(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let step = self.rows_per_block();
        let mut first = range.start;
        while first < range.end {
            let n = step.min(range.end - first);
            let read = |&(place, size): &(usize, usize)| -> Result<Vec<u8>> {
                let mut bytes = vec![0; n as usize * size];
                self.store.read(place, first, &mut bytes)?;
                Ok(bytes)
            };
            let block = self.numbers.iter().map(read).collect::<Result<Vec<_>>>()?;
            (0..n).try_for_each(|at| self.row(&block, first + at, at as usize, &mut each))?;
            first += n;
        }
        Ok(())
    }

    fn row(
        &self,
        block: &[Vec<u8>],
        row: u64,
        at: usize,
        each: &mut impl FnMut(Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let cell = |index: usize| &block[index][at * self.numbers[index].1..][..self.numbers[index].1];
        let number = |index: usize| cell(index).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let mut entry = Entry {
            name: &[],
            tokens: None,
            kept: &[],
            file: number(0),
            place: number(1),
            frames: 0,
            status: number(2) as u8,
            checksum: number(3),
        };
        let hash = self.hash.map(number);
        match &self.texts {
            Texts::Padded { path, frames } => {
                let name = cell(*path);
                let end = name.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                entry.name = &name[..end];
                entry.frames = number(*frames);
                each(Found { row, entry, hash, values: row..row + 1, is_placed: true })
            }
            Texts::Ragged(columns) => {
                let (values, mut is_placed) = self.span(columns[0], row)?;
                let mut texts = Vec::with_capacity(columns.len() - 1);
                for &column in &columns[1..] {
                    let (text, has_text) = self.cell(column, row)?;
                    is_placed &= has_text;
                    texts.push(text);
                }
                entry.name = &texts[0];
                entry.frames = values.end - values.start;
                let measured = self.measured.map_or([0; 2], |first| [number(first), number(first + 1)]);
                entry.tokens = Some((&texts[1], measured));
                entry.kept = &texts[2..];
                each(Found { row, entry, hash, values, is_placed })
            }
        }
    }

    /// Returns where a row's entries of a ragged column are; none if its offsets are damaged.
    fn span(&self, (offsets, values): (usize, usize), row: u64) -> Result<(Range<u64>, bool)> {
        let layout = &self.store.layout;
        let mut bytes = [0; 16];
        self.store.read(offsets, row, &mut bytes)?;
        let at = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        let len = layout.len(&layout.columns[values]);
        let is_first = row != 0 || at(0) == 0;
        let is_last = row + 1 != layout.n_rows || at(8) == len;
        let is_placed = is_first && is_last && at(0) <= at(8) && at(8) <= len;
        Ok(if is_placed { (at(0)..at(8), true) } else { (0..0, false) })
    }

    fn cell(&self, column: (usize, usize), row: u64) -> Result<(Vec<u8>, bool)> {
        let (span, is_placed) = self.span(column, row)?;
        if span.end - span.start > MAX_CELL {
            return Ok((Vec::new(), false));
        }
        let mut bytes = vec![0; (span.end - span.start) as usize];
        self.store.read(column.1, span.start, &mut bytes)?;
        Ok((bytes, is_placed))
    }
}
