//! Parts of a packed file on their way to a device: which records are read together, and where
//! their tiles go.

use std::ops::Range;

use melisma_kernels::rans::{Job, MAX_TILE_LEN, Segments, Status};

use super::archive::Archive;
use crate::{Error, Result};

/// An upper bound for a record with its index. Both take at most a few bytes per byte of the tile.
pub(super) const MAX_RECORD: u64 = 2 * MAX_TILE_LEN as u64;

/// Tiles of a tensor that are decoded into one place.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) tensor: usize,
    pub(super) tiles: Range<u64>,
    /// The offset in the tensor of the byte that goes to `to`.
    pub(super) from: u64,
    pub(super) to: usize,
}

/// The part of the file that one worker handles at a time.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) bytes: Range<u64>,
    /// The indices of its tiles, staged behind its records.
    pub(super) index: Range<u64>,
    /// The jobs, if the file is packed.
    pub(super) jobs: Range<usize>,
    /// The destination of the bytes, if the file is plain.
    pub(super) to: usize,
    decoded: u64,
}

impl Piece {
    /// Returns the bytes of a plain file that go to `to`.
    pub(super) fn plain(bytes: Range<u64>, to: usize) -> Self {
        Self { bytes, to, ..Self::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start + self.index.end - self.index.start
    }
}

/// Limits for the size of pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// A piece is closed once it has this many bytes.
    pub(super) piece: u64,
    /// The most bytes of a piece.
    pub(super) staging: u64,
    /// The most bytes that a piece of several tiles may decode to.
    pub(super) decoded: u64,
}

/// Pieces, and a job for each tile.
#[derive(Debug)]
pub(super) struct Plan {
    limits: Limits,
    pub(super) pieces: Vec<Piece>,
    pub(super) jobs: Vec<Job>,
    /// The tensor of each job.
    tensors: Vec<usize>,
}

impl Plan {
    /// Creates a plan without tiles.
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, pieces: Vec::new(), jobs: Vec::new(), tensors: Vec::new() }
    }

    /// Adds the tiles of `spans` in new pieces, and returns their indices.
    pub(super) fn add(&mut self, archive: &Archive<'_>, spans: &[Span]) -> Result<Range<usize>> {
        let first = self.pieces.len();
        let mut piece = Piece::default();
        for span in spans {
            for number in span.tiles.clone() {
                self.tile(archive, span, number, &mut piece)?;
            }
        }
        self.close(piece);
        Ok(first..self.pieces.len())
    }

    fn tile(&mut self, archive: &Archive<'_>, span: &Span, number: u64, piece: &mut Piece) -> Result<()> {
        let limits = self.limits;
        let blob = &archive.contents.blobs[span.tensor];
        let layout = &blob.layout;
        let (tile, at) = (blob.tiles[number as usize], blob.starts[number as usize]);
        let of_index = archive.contents.index.as_ref().and_then(|found| found.of(span.tensor, number as usize));
        let index_len = of_index.map_or(0, |(_, len)| len);
        if u64::from(tile.len) + index_len > MAX_RECORD || !tile.len.is_multiple_of(16) {
            let message = format!("a record of {} bytes", tile.len);
            return Err(Error::corrupt(message).at(&archive.contents.source.tensors[span.tensor].name));
        }
        let (end, decoded) = (at + u64::from(tile.len), layout.tile_len(number) as u64);
        // A small gap between the records of two tensors is read along with them.
        let with_it = end - piece.bytes.start + piece.index.end - piece.index.start + index_len;
        let is_full =
            piece.len() >= limits.piece || with_it > limits.staging || piece.decoded + decoded > limits.decoded;
        if piece.jobs.is_empty() || is_full {
            self.close(std::mem::take(piece));
            let first = of_index.map_or(0, |(segments, _)| segments.at);
            let jobs = self.jobs.len()..self.jobs.len();
            *piece = Piece { bytes: at..at, index: first..first, jobs, ..Piece::default() };
        }
        let segments = of_index.map(|(segments, len)| {
            if piece.index.is_empty() {
                piece.index = segments.at..segments.at;
            }
            let at = segments.at - piece.index.start;
            piece.index.end = segments.at + len;
            Segments { at, ..segments }
        });
        let [rows, cols] = layout.tile(number);
        let width = layout.split.width() as u64;
        self.jobs.push(Job {
            split: layout.split,
            number,
            tile,
            record: at - piece.bytes.start,
            out: span.to as u64 + (rows.start * layout.cols + cols.start) * width - span.from,
            row_len: ((cols.end - cols.start) * width) as u32,
            rows: (rows.end - rows.start) as u32,
            row_step: layout.cols * width,
            segments,
        });
        self.tensors.push(span.tensor);
        (piece.bytes.end, piece.jobs.end, piece.decoded) = (end, self.jobs.len(), piece.decoded + decoded);
        Ok(())
    }

    /// Completes a piece: its indices are staged behind its records.
    fn close(&mut self, piece: Piece) {
        if piece.jobs.is_empty() {
            return;
        }
        let records_len = piece.bytes.end - piece.bytes.start;
        for segments in self.jobs[piece.jobs.clone()].iter_mut().filter_map(|job| job.segments.as_mut()) {
            segments.at += records_len;
        }
        self.pieces.push(piece);
    }

    /// Fails if the device reported an error for one of the jobs from `first` on.
    pub(super) fn check(&self, archive: &Archive<'_>, first: usize, words: &[i32]) -> Result<()> {
        let Some(at) = words.iter().position(|&word| Status::from_word(word) != Status::Whole) else { return Ok(()) };
        let what = match Status::from_word(words[at]) {
            Status::Stream => "a stream does not end where it should",
            Status::Hash => "the tile's hash is wrong",
            _ => "its record contradicts the format",
        };
        let job = first + at;
        let place =
            format!("{}, tile {}", archive.contents.source.tensors[self.tensors[job]].name, self.jobs[job].number);
        Err(Error::corrupt(what).at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::safetensors::HeaderJson;
    use crate::pack::{Options, pack};
    use crate::runtime::memory::Budget;

    #[test]
    fn a_piece_ends_exactly_at_its_limits() {
        let (mut json, budget) = (HeaderJson::new(&[]), Budget::unlimited());
        json.push("matrix", "U8", "[512, 256]", 1 << 17);
        let values = (0..1u32 << 17).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let (source, mut packed) = ([json.header(), values].concat(), Vec::new());
        pack(&source, &mut packed, &Options { tile_size: Some(256), ..Options::new(&budget) }, &|_| {}).unwrap();
        let archive = Archive::open(&packed, &budget).unwrap();
        let blob = &archive.contents.blobs[0];
        let n_pieces = |limits: Limits| {
            let span = Span { tensor: 0, tiles: 0..2, from: 0, to: 0 };
            Plan::new(limits).add(&archive, &[span]).unwrap().len()
        };
        let far = Limits { piece: u64::MAX, staging: u64::MAX, decoded: u64::MAX };
        let first = u64::from(blob.tiles[0].len);
        let both = blob.starts[1] + u64::from(blob.tiles[1].len) - blob.starts[0];
        assert_eq!([first, first + 1].map(|piece| n_pieces(Limits { piece, ..far })), [2, 1]);
        assert_eq!([both - 1, both].map(|staging| n_pieces(Limits { staging, ..far })), [2, 1]);
        assert_eq!([(1 << 17) - 1, 1 << 17].map(|decoded| n_pieces(Limits { decoded, ..far })), [2, 1]);
    }
}
