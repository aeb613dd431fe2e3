//! `rans`: lossless coding of tiles of weights into records. The byte layout is in
//! `docs/format.md`.
//!
//! A tile of N elements is split into byte planes ([`Split`]), and each plane is stored in the
//! cheapest mode: raw, one constant, or bytes or pairs of palette entries coded by rANS. 32
//! interleaved states share a stream, with 12-bit frequencies and 16-bit words (Duda 2013, Giesen
//! 2014): with M = 4096 and L = 2^15,
//!
//! ```text
//! encode, last symbol first:  if x >= f << 19 { emit x & 0xffff; x >>= 16 }   x = (x / f) M + c + x % f
//! decode:                     e = T[x % M];   x = e.f (x / M) + e.offset;     if x < L { x = x << 16 | next word }
//! ```
//!
//! The decoder must end where the encoder began: all states L, every word taken. A hash of the
//! decoded tile is checked as well. Large tiles are cut into two or four slices with their own
//! streams, which one core decodes together and a GPU gives to as many warps. Records are the same
//! bytes on every instruction set.
//!
//! ```
//! use melisma_kernels::Isa;
//! use melisma_kernels::rans::{Decoder, Encoder, Split};
//!
//! let weights: Vec<u8> = (0..4096u16).flat_map(|i| (0x3c00 + i % 64).to_le_bytes()).collect();
//! let mut record = Vec::new();
//! let tile = Encoder::new(Isa::best()).encode(Split::BrainFloat16, 0, &weights, &mut record)?;
//! assert!(record.len() < weights.len());
//! let mut decoded = vec![0; weights.len()];
//! Decoder::new(Isa::best()).decode(Split::BrainFloat16, 0, &tile, &record, &mut decoded)?;
//! assert_eq!(decoded, weights);
//! # Ok::<(), melisma_kernels::Error>(())
//! ```
//!
//! # Why pairs of exponents, four streams and an optional index?
//!
//! Neighbouring exponents coded as one symbol cost a hundredth of a bit on transformers, save a
//! seventh of a bit on convolutions, and halve the steps of every decoder. Each tile has its own
//! table: at 512 x 512 elements it pays for itself, and a tile needs nothing but its record. One
//! core hides its latencies by decoding four streams together; a GPU gives them to four warps. A
//! layer of 11 MB has 88 slices where a large GPU runs thousands of warps, so snapshots of the
//! decoders give each segment of a slice its own warp. The snapshots take a thirtieth of the
//! source, so files have no index by default. The end of a segment is compared with the next
//! snapshot, so a wrong index is detected like a wrong stream.

mod batch;
mod cost;
mod cpu;
pub(crate) mod cuda;
mod decode;
mod encode;
mod hash;
mod index;
mod job;
mod model;
mod planes;
mod record;
#[cfg(test)]
mod reference;
mod table;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Lens};
pub use decode::Decoder;
pub use encode::Encoder;
pub use index::{SEGMENT_STEP, Segments, len as index_len};
pub use job::{Job, Status};
pub use planes::Split;
pub use record::{MAX_TILE_LEN, Mode, Tile};

/// States per stream, one for each thread of a warp.
const LANES: usize = 32;
/// States are normalised to `L..2^31`.
const L: u32 = 1 << 15;
/// Frequencies sum to `M = 2^SCALE_BITS`.
const SCALE_BITS: u32 = 12;
const M: usize = 1 << SCALE_BITS;
/// The most slices of a tile.
const MAX_SLICES: usize = 4;

/// The slices of a tile: `count` slices of `len` elements, the last one shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slices {
    count: usize,
    len: usize,
    n: usize,
}

impl Slices {
    fn of(n: usize) -> Self {
        let count = match n {
            0..0x8000 => 1,
            0x8000..0x2_0000 => 2,
            _ => MAX_SLICES,
        };
        let len = if count == 1 { n } else { n.div_ceil(count).next_multiple_of(64) };
        Self { count, len, n }
    }

    fn range(&self, slice: usize) -> std::ops::Range<usize> {
        slice * self.len..self.n.min((slice + 1) * self.len)
    }
}
