//! Tiles to records.

use super::cpu;
use super::hash::{self, Lanes};
use super::model::{self, Model, Pairs, SavingsRule};
use super::planes::{self, Split};
use super::record::{ALIGN, MAX_PLANES, MAX_TILE_LEN, Mode, Tile};
use super::table::{self, Coding, Frequencies};
use super::{L, LANES, MAX_SLICES, Slices};
use crate::{Error, Isa, Result};

/// Encodes tiles on one thread; reusable, and allocation-free after the first tile of a size.
#[derive(Debug)]
pub struct Encoder {
    isa: Isa,
    planes: Vec<u8>,
    pairs: Pairs,
    words: [Vec<u8>; MAX_SLICES],
    codings: Box<[Coding; 256]>,
}

impl Encoder {
    /// Creates an encoder for this instruction set; records do not depend on it.
    pub fn new(isa: Isa) -> Self {
        let codings = Box::new([Coding::default(); 256]);
        Self { isa, planes: Vec::new(), pairs: Pairs::default(), words: Default::default(), codings }
    }

    /// Returns the bytes of memory that it holds on to for the next tile.
    pub fn held_bytes(&self) -> usize {
        let words: usize = self.words.iter().map(Vec::capacity).sum();
        let pairs = self.pairs.symbols.capacity() + self.pairs.escapes.capacity();
        self.planes.capacity() + pairs + words + size_of_val(&*self.codings)
    }

    /// Appends the record of tile `number` to `out`, and returns its entry for the index.
    ///
    /// # Errors
    /// `InvalidArgument`: `elements.len()` is above [`MAX_TILE_LEN`] or not a multiple of the
    /// split's width.
    pub fn encode(&mut self, split: Split, number: u64, elements: &[u8], out: &mut Vec<u8>) -> Result<Tile> {
        let _span = tracing::info_span!("rans encode", bytes = elements.len() as u64).entered();
        let width = split.width();
        let (n, slices) = self.split(split, elements)?;
        let start = out.len();
        out.resize(start + (4 * width).next_multiple_of(ALIGN), 0);
        let mut modes = [Mode::Raw; MAX_PLANES];
        for (plane, mode) in modes[..width].iter_mut().enumerate() {
            let begin = out.len();
            *mode = self.plane(plane * n..(plane + 1) * n, SavingsRule::of(width), slices, out);
            let len = (out.len() - begin) as u32;
            out[start + 4 * plane..start + 4 * plane + 4].copy_from_slice(&len.to_le_bytes());
            pad(out, start);
        }
        let hash = self.hash(number, width, slices, elements);
        Ok(Tile::new(hash, out.len() - start, &modes[..width]))
    }

    /// Returns the length of a tile's record in bytes, except for the rounding of words.
    ///
    /// # Errors
    /// As for [`Encoder::encode`].
    pub fn cost(&mut self, split: Split, elements: &[u8]) -> Result<u64> {
        let width = split.width();
        let (n, slices) = self.split(split, elements)?;
        let mut bytes = 4 * width as u64;
        for plane in self.planes.chunks(n.max(1)) {
            bytes += model::choose(self.isa, plane, SavingsRule::of(width), slices, &mut self.pairs).1;
        }
        Ok(bytes)
    }

    /// Fills the planes; returns their length and slices.
    fn split(&mut self, split: Split, elements: &[u8]) -> Result<(usize, Slices)> {
        let width = split.width();
        if elements.len() > MAX_TILE_LEN || !elements.len().is_multiple_of(width) {
            return Err(Error::invalid(format!("a tile cannot have {} bytes of {width} each", elements.len())));
        }
        self.planes.resize(elements.len(), 0);
        planes::split(self.isa, split, elements, &mut self.planes);
        let n = elements.len() / width;
        Ok((n, Slices::of(n)))
    }

    fn hash(&self, number: u64, width: usize, slices: Slices, elements: &[u8]) -> u64 {
        let mut lanes: [Lanes; MAX_SLICES] = std::array::from_fn(|_| Lanes::new());
        let bytes = |slice: usize| {
            let range = slices.range(slice);
            &elements[range.start * width..range.end * width]
        };
        let (twos, rest) = lanes[..slices.count].as_chunks_mut::<2>();
        for (index, two) in twos.iter_mut().enumerate() {
            Lanes::update_two(two, self.isa, [bytes(2 * index), bytes(2 * index + 1)]);
        }
        if let [lanes] = rest {
            lanes.update(self.isa, bytes(slices.count - 1));
        }
        hash::fold(number, elements.len(), &lanes[..slices.count])
    }

    /// Appends one plane.
    fn plane(&mut self, plane: std::ops::Range<usize>, worth: SavingsRule, slices: Slices, out: &mut Vec<u8>) -> Mode {
        let (model, _) = model::choose(self.isa, &self.planes[plane.clone()], worth, slices, &mut self.pairs);
        match &model {
            Model::Raw => out.extend_from_slice(&self.planes[plane]),
            Model::Constant(byte) => out.push(*byte),
            Model::Bytes(frequencies) => self.coded(plane, slices, None, frequencies, out),
            Model::Pairs { palette, frequencies } => self.coded(plane, slices, Some(palette), frequencies, out),
        }
        model.mode()
    }

    fn coded(
        &mut self,
        plane: std::ops::Range<usize>,
        slices: Slices,
        palette: Option<&[u8; 16]>,
        frequencies: &Frequencies,
        out: &mut Vec<u8>,
    ) {
        table::codings(frequencies, &mut self.codings);
        let bytes = &self.planes[plane];
        let mut symbols = [&[][..]; MAX_SLICES];
        for (slice, symbols) in symbols[..slices.count].iter_mut().enumerate() {
            let range = slices.range(slice);
            *symbols = match palette {
                Some(_) => &self.pairs.symbols[range.start / 2..range.end.div_ceil(2)],
                None => &bytes[range],
            };
        }
        let mut states = [[L; LANES]; MAX_SLICES];
        let begins = match slices.count {
            1 => streams::<1>(self.isa, &self.codings, &symbols, &mut self.words, &mut states),
            2 => streams::<2>(self.isa, &self.codings, &symbols, &mut self.words, &mut states),
            _ => streams::<4>(self.isa, &self.codings, &symbols, &mut self.words, &mut states),
        };
        let start = out.len();
        let mut escapes_before = 0;
        for (slice, begin) in begins[..slices.count].iter().enumerate() {
            let n_words = (self.words[slice].len() - begin) / 2;
            let n_escapes = if palette.is_some() { self.pairs.ends[slice] - escapes_before } else { 0 };
            escapes_before += n_escapes;
            out.extend_from_slice(&(n_words as u32).to_le_bytes());
            out.extend_from_slice(&(n_escapes as u32).to_le_bytes());
        }
        pad(out, start);
        out.extend_from_slice(palette.map_or(&[], |palette| &palette[..]));
        table::write(frequencies, out);
        pad(out, start);
        for state in states[..slices.count].as_flattened() {
            out.extend_from_slice(&state.to_le_bytes());
        }
        for (words, begin) in self.words[..slices.count].iter().zip(begins) {
            out.extend_from_slice(&words[begin..]);
            pad(out, start);
        }
        if palette.is_some() {
            out.extend_from_slice(&self.pairs.escapes);
        }
        pad(out, start);
    }
}

/// Encodes the streams of N slices into `words`, and returns where each begins.
fn streams<const N: usize>(
    isa: Isa,
    codings: &[Coding; 256],
    symbols: &[&[u8]; MAX_SLICES],
    words: &mut [Vec<u8>; MAX_SLICES],
    states: &mut [[u32; LANES]; MAX_SLICES],
) -> [usize; MAX_SLICES] {
    let symbols: [&[u8]; N] = std::array::from_fn(|slice| symbols[slice]);
    for (words, symbols) in words.iter_mut().zip(&symbols) {
        words.resize(2 * symbols.len() + 2 * LANES, 0);
    }
    let mut parts = words.iter_mut();
    let mut out: [&mut [u8]; N] = std::array::from_fn(|_| parts.next().map_or(&mut [][..], |words| &mut words[..]));
    let mut of_slices = [[L; LANES]; N];
    let begins = cpu::encode(isa, codings, &symbols, &mut out, &mut of_slices);
    states[..N].copy_from_slice(&of_slices);
    std::array::from_fn(|slice| begins.get(slice).copied().unwrap_or(0))
}

/// Pads with zeros to a multiple of [`ALIGN`] bytes after `start`.
fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + (out.len() - start).next_multiple_of(ALIGN), 0);
}
