//! A rectangle of a tensor's matrix, without the tiles beside it.

use std::ops::Range;

use melisma_kernels::Isa;
use melisma_kernels::rans::Decoder;

use super::archive::Archive;
use super::in_order::in_order;
use super::layout::Layout;
use super::memory::{Need, resize};
use crate::format::safetensors::TensorEntry;
use crate::{Error, Result};

/// Rows and columns of a tensor's matrix, in elements: the last dimension is the columns, and the
/// product of the others is the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The rows.
    pub rows: Range<u64>,
    /// The columns.
    pub cols: Range<u64>,
}

impl Region {
    /// Returns the whole matrix of `tensor`.
    pub fn whole(tensor: &TensorEntry) -> Self {
        let (cols, outer) = tensor.shape.split_last().map_or((1, &[][..]), |(&cols, outer)| (cols, outer));
        Self { rows: 0..outer.iter().fold(1, |rows: u64, &extent| rows.saturating_mul(extent)), cols: 0..cols }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        let extent = |range: &Range<u64>| range.end.saturating_sub(range.start);
        extent(&self.rows).saturating_mul(extent(&self.cols))
    }

    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of an element of `tensor`, if the region lies within its matrix.
    ///
    /// # Errors
    /// `InvalidArgument`: it does not. `Unsupported`: elements are not whole bytes.
    pub fn element_len(&self, tensor: &TensorEntry) -> Result<u64> {
        let whole = Self::whole(tensor);
        let is_within = |part: &Range<u64>, all: &Range<u64>| part.start <= part.end && part.end <= all.end;
        if !is_within(&self.rows, &whole.rows) || !is_within(&self.cols, &whole.cols) {
            let (rows, cols) = (whole.rows.end, whole.cols.end);
            let message =
                format!("{}: rows {:?} and columns {:?} of {rows} x {cols}", tensor.name, self.rows, self.cols);
            return Err(Error::invalid(message));
        }
        match whole.len() {
            0 => Ok(0),
            n if tensor.len().is_multiple_of(n) => Ok(tensor.len() / n),
            _ => Err(Error::unsupported(format!("{}: no parts in a tensor of {}", tensor.name, tensor.dtype))),
        }
    }

    /// Returns the same region in the columns of `layout`, which may store an element in several.
    fn in_columns_of(&self, layout: &Layout, element_len: u64) -> Self {
        let per_element = element_len / layout.split.width() as u64;
        Self { rows: self.rows.clone(), cols: self.cols.start * per_element..self.cols.end * per_element }
    }

    /// Returns the numbers of the tiles that overlap it.
    fn tiles(&self, layout: &Layout) -> Vec<u64> {
        let across = layout.grid()[1];
        let touched = |range: &Range<u64>, step: u64| range.start / step..range.end.div_ceil(step);
        let columns = touched(&self.cols, layout.tile_cols);
        touched(&self.rows, layout.tile_rows)
            .flat_map(|row| columns.clone().map(move |column| row * across + column))
            .collect()
    }

    /// Copies the part of a tile that it covers to its place in `out`.
    fn take(&self, layout: &Layout, number: u64, tile: &[u8], out: &mut [u8]) {
        let width = layout.split.width() as u64;
        let [rows, cols] = layout.tile(number);
        let (first, end) = (cols.start.max(self.cols.start), cols.end.min(self.cols.end));
        let (tile_row, out_row) = ((cols.end - cols.start) * width, (self.cols.end - self.cols.start) * width);
        for row in rows.start.max(self.rows.start)..rows.end.min(self.rows.end) {
            let from = ((row - rows.start) * tile_row + (first - cols.start) * width) as usize;
            let to = ((row - self.rows.start) * out_row + (first - self.cols.start) * width) as usize;
            let len = ((end - first) * width) as usize;
            out[to..to + len].copy_from_slice(&tile[from..from + len]);
        }
    }
}

impl Archive<'_> {
    /// Writes the elements of a region to `out`, row by row, on `threads` threads of the CPU. Reads
    /// only the tiles that overlap it.
    ///
    /// # Errors
    /// `InvalidArgument`: no such tensor, the region is not within it, or `out` has another length.
    /// Otherwise as [`Archive::unpack_tensor`].
    pub fn unpack_region(&self, name: &str, region: &Region, out: &mut [u8], threads: usize) -> Result<()> {
        let index = self.find(name)?;
        let (blob, tensor) = (&self.contents.blobs[index], &self.contents.source.tensors[index]);
        let element_len = region.element_len(tensor)?;
        if out.len() as u64 != region.len() * element_len {
            let message = format!("{name}: {} bytes for a region of {}", out.len(), region.len() * element_len);
            return Err(Error::invalid(message));
        }
        let layout = &blob.layout;
        if layout.rows != Region::whole(tensor).rows.end || !element_len.is_multiple_of(layout.split.width() as u64) {
            return Err(Error::unsupported(format!("{name}: a part of a tensor of {}", tensor.dtype)));
        }
        if region.is_empty() {
            return Ok(());
        }
        let region = region.in_columns_of(layout, element_len);
        let tiles = region.tiles(layout);
        let need = Need { result: layout.tile_len(0) as u64, ..self.decoding_need(index..index + 1) };
        let (workers, _held) = need.workers(threads, &self.budget)?;
        let isa = Isa::from_env()?;
        in_order(
            workers,
            tiles.len(),
            || (Decoder::new(isa), Vec::new()),
            |(decoder, record), at, tile: &mut Vec<u8>| {
                resize(tile, layout.tile_len(tiles[at]));
                self.decode_tile(decoder, index, tiles[at], record, tile)?;
                self.undo_delta(index, tiles[at], tile)
            },
            |at, tile| {
                region.take(layout, tiles[at], tile, out);
                Ok(())
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::safetensors::HeaderJson;
    use crate::pack::{Options, pack};
    use crate::runtime::memory::Budget;

    const TENSORS: [(&str, &str, &[u64], u64); 5] = [
        ("matrix", "BF16", &[700, 900], 2),
        ("cube", "F32", &[3, 40, 700], 4),
        ("complex", "C64", &[300, 300], 8),
        ("vector", "F64", &[3000], 8),
        ("wide", "I16", &[2, 70_001], 2),
    ];

    fn source(change: u8) -> Vec<u8> {
        let mut json = HeaderJson::new(&[]);
        let mut data = Vec::new();
        for (name, dtype, shape, width) in TENSORS {
            let len = shape.iter().product::<u64>() * width;
            json.push(name, dtype, &format!("{shape:?}"), len);
            data.extend((0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ change));
        }
        [json.header(), data].concat()
    }

    fn check(archive: &Archive<'_>, source: &[u8]) {
        for entry in &archive.source().tensors {
            let bytes = &source[(archive.source().len + entry.bytes[0]) as usize..][..entry.len() as usize];
            let whole = Region::whole(entry);
            let (rows, cols) = (whole.rows.end, whole.cols.end);
            let width = (entry.len() / whole.len()) as usize;
            let middle = Region { rows: rows / 3..rows.div_ceil(2), cols: cols / 4..cols / 2 };
            let corner = Region { rows: rows - 1..rows, cols: cols - 1..cols };
            let nothing = Region { rows: 0..0, cols: 0..cols };
            for region in [whole, middle, corner, nothing] {
                let mut found = vec![0; region.len() as usize * width];
                archive.unpack_region(&entry.name, &region, &mut found, 2).unwrap();
                let row = |row: u64| {
                    let at = |col: u64| (row * cols + col) as usize * width;
                    &bytes[at(region.cols.start)..at(region.cols.end)]
                };
                assert!(
                    found == region.rows.clone().flat_map(row).copied().collect::<Vec<u8>>(),
                    "{entry:?} {region:?}"
                );
            }
        }
    }

    #[test]
    fn regions_are_those_of_the_whole_tensor() {
        let (source, base, budget) = (source(0), source(5), Budget::unlimited());
        for tile_size in [Some(256), None] {
            let mut packed = Vec::new();
            pack(&source, &mut packed, &Options { tile_size, ..Options::new(&budget) }, &|_| {}).unwrap();
            check(&Archive::open(&packed, &budget).unwrap(), &source);
        }
        let mut delta = Vec::new();
        pack(&source, &mut delta, &Options { base: Some(&base), ..Options::new(&budget) }, &|_| {}).unwrap();
        check(&Archive::open(&delta, &budget).unwrap().with_base(&base).unwrap(), &source);
    }

    #[test]
    fn other_tile_sizes_are_refused_before_anything_is_written() {
        let (source, budget) = (source(0), Budget::unlimited());
        for size in [0, 1, 2, 64, 255, 2048, u32::MAX] {
            let mut packed = Vec::new();
            let options = Options { tile_size: Some(size), ..Options::new(&budget) };
            let error = pack(&source, &mut packed, &options, &|_| {}).unwrap_err();
            assert_eq!(error.to_string(), format!("a tile size of {size}; the sizes are 256, 512, 1024"));
            assert!(packed.is_empty());
        }
    }

    #[test]
    fn tiles_beside_a_region_are_not_read() {
        let (source, budget) = (source(0), Budget::unlimited());
        let mut packed = Vec::new();
        pack(&source, &mut packed, &Options { tile_size: Some(256), ..Options::new(&budget) }, &|_| {}).unwrap();
        let damaged_at = {
            let archive = Archive::open(&packed, &budget).unwrap();
            archive.contents.blobs[archive.find("matrix").unwrap()].starts[0] as usize + 100
        };
        packed[damaged_at] ^= 1;
        let archive = Archive::open(&packed, &budget).unwrap();
        let read = |rows: Range<u64>, cols: Range<u64>| {
            let region = Region { rows, cols };
            archive.unpack_region("matrix", &region, &mut vec![0; 2 * region.len() as usize], 1)
        };
        assert!(read(0..1, 0..1).unwrap_err().to_string().contains("matrix, tile 0"));
        read(0..1, 800..900).unwrap();
        read(600..700, 0..900).unwrap();
        let error = read(0..701, 0..1).unwrap_err().to_string();
        assert_eq!(error, "matrix: rows 0..701 and columns 0..1 of 700 x 900");
        assert!(archive.unpack_region("matrix", &Region { rows: 0..1, cols: 0..1 }, &mut [0; 3], 1).is_err());
    }
}
