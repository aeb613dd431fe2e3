//! How a tensor is divided into tiles. The rule is part of the format: a file stores only the tile
//! size, and the rest follows from it.

use std::ops::Range;

use melisma_kernels::rans::Split;

use crate::format::safetensors::TensorEntry;
use crate::format::{Opaque, StoredType};
use crate::{DType, Error, Result};

/// The valid tile sizes: rows and columns, in elements.
pub const TILE_SIZES: [u32; 3] = [256, 512, 1024];
/// The largest row of tiles, in bytes. The tiles of a row are not contiguous in memory, so they are
/// read together.
const MAX_BAND: u64 = 64 << 20;

/// A matrix divided into tiles. The last dimension is the columns, and the product of the others is
/// the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// How elements are split into planes.
    pub split: Split,
    /// The nominal number of rows and columns of a tile, one of [`TILE_SIZES`].
    pub tile_size: u32,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix.
    pub cols: u64,
    /// Rows per tile; fewer in the last row of tiles.
    pub tile_rows: u64,
    /// Columns per tile; fewer in the last column of tiles.
    pub tile_cols: u64,
}

/// Tiles whose bytes are contiguous in the tensor: a single tile, or a row of tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) tiles: Range<u64>,
    /// The byte range within the tensor.
    pub(super) bytes: Range<u64>,
}

impl Layout {
    /// Returns the layout of a tensor.
    ///
    /// # Errors
    /// `Corrupt`: the shape overflows, or does not match the tensor's length.
    pub fn of(tensor: &TensorEntry, tile_size: u32) -> Result<Self> {
        let (split, parts) = match StoredType::from_safetensors(&tensor.dtype) {
            StoredType::Array(dtype) => (split_of(dtype), 1),
            StoredType::Opaque(Opaque::C64) => (Split::Float32, 2),
            StoredType::Opaque(Opaque::F8E4M3 | Opaque::F8E5M2 | Opaque::F8E8M0) => (Split::Bytes1, 1),
            // Elements smaller than a byte, and types that version 1.0 of the format does not know.
            StoredType::Opaque(Opaque::F8E4M3Fnuz | Opaque::F8E5M2Fnuz) | StoredType::Unknown => {
                return Ok(Self::new(Split::Bytes1, 1, tensor.len(), tile_size));
            }
        };
        let (cols, outer) = tensor.shape.split_last().map_or((1, &[][..]), |(&cols, outer)| (cols, outer));
        let rows = outer.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
        let (rows, cols) = match (rows, cols.checked_mul(parts)) {
            (Some(rows), Some(cols)) => (rows, cols),
            _ => return Err(wrong_shape(tensor)),
        };
        let bytes = rows.checked_mul(cols).and_then(|n| n.checked_mul(split.width() as u64));
        if bytes != Some(tensor.len()) {
            return Err(wrong_shape(tensor));
        }
        Ok(Self::new(split, rows, cols, tile_size))
    }

    pub(super) fn new(split: Split, rows: u64, cols: u64, tile_size: u32) -> Self {
        let (width, area) = (split.width() as u64, u64::from(tile_size) * u64::from(tile_size));
        let (rows_1, cols_1) = (rows.max(1), cols.max(1));
        let mut tile_cols = cols_1.min(tile_size.into());
        let mut tile_rows = rows_1.min(area / tile_cols);
        if tile_cols < cols_1 {
            tile_rows = tile_rows.min((MAX_BAND / width / cols_1).max(1));
            tile_cols = cols_1.min(area / tile_rows);
        }
        // Equal parts, so that no tile is a small remainder.
        tile_rows = rows_1.div_ceil(rows_1.div_ceil(tile_rows));
        if tile_cols < cols_1 {
            tile_cols = cols_1.div_ceil(cols_1.div_ceil(tile_cols)).next_multiple_of(64).min(tile_cols);
        }
        Self { split, tile_size, rows, cols, tile_rows, tile_cols }
    }

    /// Returns the rows and columns of tiles.
    pub fn grid(&self) -> [u64; 2] {
        [self.rows.div_ceil(self.tile_rows), self.cols.div_ceil(self.tile_cols)]
    }

    /// Returns the number of tiles; 0 for a tensor without elements.
    pub fn n_tiles(&self) -> u64 {
        let [down, across] = self.grid();
        down * across
    }

    /// Returns the range of rows and the range of columns that a tile covers.
    pub fn tile(&self, number: u64) -> [Range<u64>; 2] {
        let across = self.grid()[1].max(1);
        let (row, col) = (number / across * self.tile_rows, number % across * self.tile_cols);
        [row..(row + self.tile_rows).min(self.rows), col..(col + self.tile_cols).min(self.cols)]
    }

    /// Returns the bytes of a decoded tile.
    pub(super) fn tile_len(&self, number: u64) -> usize {
        let [rows, cols] = self.tile(number);
        ((rows.end - rows.start) * (cols.end - cols.start)) as usize * self.split.width()
    }

    fn tiles_per_run(&self) -> u64 {
        if self.tile_cols >= self.cols || self.tile_rows == 1 { 1 } else { self.grid()[1] }
    }

    /// Returns the number of runs in the tensor.
    pub(super) fn n_runs(&self) -> u64 {
        self.n_tiles().div_ceil(self.tiles_per_run().max(1))
    }

    /// Returns run `index`: its tiles and its bytes, both in order.
    pub(super) fn run(&self, index: u64) -> Run {
        let per_run = self.tiles_per_run().max(1);
        let tiles = index * per_run..(index + 1) * per_run;
        let [rows, cols] = self.tile(tiles.start);
        let begin = if per_run == 1 { rows.start * self.cols + cols.start } else { rows.start * self.cols };
        let [rows, cols] = self.tile(tiles.end - 1);
        let end = (rows.end - 1) * self.cols + cols.end;
        let width = self.split.width() as u64;
        Run { tiles, bytes: begin * width..end * width }
    }

    /// Returns the position of a tile's rows within its run: offset of the first row, stride, and
    /// length of a row, in bytes.
    pub(super) fn rows_in_run(&self, number: u64) -> [usize; 3] {
        let (width, per_run) = (self.split.width(), self.tiles_per_run().max(1));
        let [_, cols] = self.tile(number);
        let row_len = (cols.end - cols.start) as usize * width;
        match per_run {
            1 => [0, row_len, row_len],
            _ => [cols.start as usize * width, self.cols as usize * width, row_len],
        }
    }
}

/// The runs of all tensors, numbered consecutively.
pub(super) struct Runs(Vec<u64>);

impl Runs {
    /// Creates the layout from the number of runs of each tensor.
    pub(super) fn new(counts: impl Iterator<Item = u64>) -> Self {
        Self(
            counts
                .scan(0, |end, count| {
                    *end += count;
                    Some(*end)
                })
                .collect(),
        )
    }

    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |&end| end as usize)
    }

    /// Returns the tensor, and the run within it.
    pub(super) fn get(&self, index: usize) -> (usize, u64) {
        let tensor = self.0.partition_point(|&end| end <= index as u64);
        let before = if tensor == 0 { 0 } else { self.0[tensor - 1] };
        (tensor, index as u64 - before)
    }
}

/// Returns how elements of a type are divided into planes.
pub fn split_of(dtype: DType) -> Split {
    match dtype {
        DType::BF16 => Split::BrainFloat16,
        DType::F32 => Split::Float32,
        DType::F16 | DType::I16 | DType::U16 => Split::Bytes2,
        DType::I32 | DType::U32 => Split::Bytes4,
        DType::F64 | DType::I64 | DType::U64 => Split::Bytes8,
        DType::Bool | DType::U8 | DType::I8 | DType::I24 => Split::Bytes1,
    }
}

fn wrong_shape(tensor: &TensorEntry) -> Error {
    let TensorEntry { name, dtype, shape, .. } = tensor;
    Error::corrupt(format!("{name}: {dtype} of shape {shape:?} does not have {} bytes", tensor.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The split is part of the format: a file packed before must be read the same way.
    #[test]
    fn every_type_has_the_split_that_files_are_packed_with() {
        let of = |dtype: &str, shape: &[u64], bytes: u64| {
            let tensor =
                TensorEntry { name: "x".to_owned(), dtype: dtype.to_owned(), shape: shape.to_vec(), bytes: [0, bytes] };
            Layout::of(&tensor, 512).map(|layout| (layout.split, layout.rows, layout.cols))
        };
        for (dtype, split, width) in [
            ("BF16", Split::BrainFloat16, 2),
            ("F32", Split::Float32, 4),
            ("F16", Split::Bytes2, 2),
            ("I16", Split::Bytes2, 2),
            ("U16", Split::Bytes2, 2),
            ("I32", Split::Bytes4, 4),
            ("U32", Split::Bytes4, 4),
            ("F64", Split::Bytes8, 8),
            ("I64", Split::Bytes8, 8),
            ("U64", Split::Bytes8, 8),
            ("BOOL", Split::Bytes1, 1),
            ("U8", Split::Bytes1, 1),
            ("I8", Split::Bytes1, 1),
            ("F8_E4M3", Split::Bytes1, 1),
            ("F8_E5M2", Split::Bytes1, 1),
            ("F8_E8M0", Split::Bytes1, 1),
        ] {
            assert_eq!(of(dtype, &[3, 5], 15 * width).unwrap(), (split, 3, 5), "{dtype}");
            assert!(of(dtype, &[3, 5], 15 * width + 1).is_err(), "{dtype}");
        }
        assert_eq!(of("C64", &[3, 5], 120).unwrap(), (Split::Float32, 3, 10));
        for dtype in ["F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4", "anything"] {
            assert_eq!(of(dtype, &[3, 5], 7).unwrap(), (Split::Bytes1, 1, 7), "{dtype}");
        }
    }

    #[test]
    fn runs_cover_every_byte_once() {
        for (rows, cols) in [(0, 5), (5, 0), (1, 1), (1, 1_000_000), (3, 70_000), (1536, 384), (700, 700), (2048, 2816)]
        {
            for tile_size in TILE_SIZES {
                let layout = Layout::new(Split::BrainFloat16, rows, cols, tile_size);
                let (mut tiles, mut bytes, mut in_tiles) = (0, 0, 0);
                for index in 0..layout.n_runs() {
                    let run = layout.run(index);
                    assert_eq!((run.tiles.start, run.bytes.start), (tiles, bytes), "{layout:?}");
                    (tiles, bytes) = (run.tiles.end, run.bytes.end);
                    in_tiles += run.tiles.map(|tile| layout.tile_len(tile) as u64).sum::<u64>();
                }
                assert_eq!(
                    (tiles, bytes, in_tiles),
                    (layout.n_tiles(), rows * cols * 2, rows * cols * 2),
                    "{layout:?}"
                );
                assert!(
                    layout.tile_rows * layout.tile_cols <= u64::from(tile_size) * u64::from(tile_size),
                    "{layout:?}"
                );
            }
        }
    }
}
