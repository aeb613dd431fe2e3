//! Chooses the mode that stores a plane in the fewest bytes.

use std::cmp::Reverse;

use super::cost::{self, BIT};
use super::cpu::{self, Inverse};
use super::record::{ALIGN, Mode};
use super::table::{self, Frequencies};
use super::{LANES, Slices};
use crate::Isa;

/// A sample of this many bytes in each [`STRIDE`] detects planes that are noise.
const SAMPLE: usize = 64;
const STRIDE: usize = 1024;
/// Planes up to this length are sampled whole.
const WHOLE: usize = 1 << 14;
/// The nibble of a byte that is not in the palette.
pub(super) const ESCAPE: u8 = 15;

/// The model that stores a plane.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Model {
    Raw,
    Constant(u8),
    Bytes(Frequencies),
    Pairs { palette: [u8; 16], frequencies: Frequencies },
}

impl Model {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Raw => Mode::Raw,
            Self::Constant(_) => Mode::Constant,
            Self::Bytes(_) => Mode::Bytes,
            Self::Pairs { .. } => Mode::Pairs,
        }
    }
}

/// A plane as pairs of palette entries.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) symbols: Vec<u8>,
    pub(super) escapes: Vec<u8>,
    /// Escapes up to the end of each slice.
    pub(super) ends: [usize; super::MAX_SLICES],
}

/// What coding a plane must save: narrow elements favour decoding speed, wide ones size.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavingsRule {
    /// Thousandths of a bit per byte above which a sample counts as noise.
    noise: u64,
    /// The share of the plane that must be saved, as a divisor.
    share: usize,
    /// The share of the plane that bytes must save beyond pairs, as a divisor: bytes take twice the
    /// steps.
    bytes_share: usize,
}

impl SavingsRule {
    pub(super) fn of(width: usize) -> Self {
        if width < 4 {
            Self { noise: 7900, share: 64, bytes_share: 200 }
        } else {
            Self { noise: 7985, share: 4000, bytes_share: 4000 }
        }
    }
}

/// Chooses a model for `plane` and returns it with the stored length in bytes; pairs are left in
/// `pairs`.
pub(super) fn choose(isa: Isa, plane: &[u8], worth: SavingsRule, slices: Slices, pairs: &mut Pairs) -> (Model, u64) {
    let sample = sample(plane);
    let n_sampled: u64 = sample.iter().map(|&n| u64::from(n)).sum();
    if n_sampled == 0 || cost::entropy(&sample) > n_sampled * BIT * worth.noise / 1000 {
        return (Model::Raw, plane.len() as u64);
    }
    let (palette, inverse, n_covered) = palette(&sample);
    let mut best = (Model::Raw, plane.len() as u64);
    let mut least = (plane.len() - plane.len() / worth.share) as u64;
    let counts = if n_covered * 50 >= n_sampled * 49 {
        let pair_counts = pairs.fill(isa, plane, slices, &inverse);
        if n_distinct(&pair_counts) > 1 {
            let frequencies = table::normalize(&pair_counts);
            let extra = 16 + pairs.escapes.len().next_multiple_of(ALIGN);
            let len = coded_len(&pair_counts, &frequencies, slices) + extra as u64;
            if len < least {
                best = (Model::Pairs { palette, frequencies }, len);
                least = len.saturating_sub((plane.len() / worth.bytes_share) as u64);
            }
        }
        marginals(&pair_counts, &palette, plane.len(), &pairs.escapes)
    } else {
        count(plane)
    };
    match n_distinct(&counts) {
        1 => (Model::Constant(plane[0]), 1),
        _ => {
            let frequencies = table::normalize(&counts);
            let len = coded_len(&counts, &frequencies, slices);
            if len < least { (Model::Bytes(frequencies), len) } else { best }
        }
    }
}

fn n_distinct(counts: &[u32; 256]) -> usize {
    counts.iter().filter(|&&n| n > 0).count()
}

/// Returns the bytes of a coded plane without palette and escapes, exact except for the rounding of
/// words.
fn coded_len(counts: &[u32; 256], frequencies: &Frequencies, slices: Slices) -> u64 {
    let bits = cost::of_frequency();
    let payload: u64 =
        counts.iter().zip(frequencies).map(|(&n, &f)| u64::from(n) * u64::from(bits[usize::from(f)])).sum();
    let fixed = (8 + 4 * LANES) * slices.count + table::stored_len(frequencies).next_multiple_of(ALIGN);
    payload / (8 * BIT) + fixed as u64
}

/// Returns the number of occurrences of each byte.
fn count(bytes: &[u8]) -> [u32; 256] {
    let mut parts = [[0; 256]; 4];
    add(&mut parts, bytes);
    sum(&parts)
}

/// Counts in four tables, so that equal neighbours do not wait for each other, from eight bytes
/// loaded at once.
fn add(parts: &mut [[u32; 256]; 4], bytes: &[u8]) {
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight);
        for i in 0..8 {
            parts[i % 4][usize::from((word >> (8 * i)) as u8)] += 1;
        }
    }
    for &byte in rest {
        parts[0][usize::from(byte)] += 1;
    }
}

fn sum(parts: &[[u32; 256]; 4]) -> [u32; 256] {
    std::array::from_fn(|i| parts.iter().map(|part| part[i]).sum())
}

fn sample(plane: &[u8]) -> [u32; 256] {
    if plane.len() <= WHOLE {
        return count(plane);
    }
    let mut parts = [[0; 256]; 4];
    for block in plane.chunks(STRIDE) {
        add(&mut parts, &block[..block.len().min(SAMPLE)]);
    }
    sum(&parts)
}

/// Returns the 15 most frequent bytes of a sample, the nibble of every byte, and the number of
/// sample bytes covered.
fn palette(sample: &[u32; 256]) -> ([u8; 16], Inverse, u64) {
    let (mut palette, mut inverse, mut covered) = ([0; 16], [ESCAPE; 256], 0);
    let (mut seen, mut n_seen) = ([(Reverse(0), 0); 256], 0);
    for (byte, &n) in (0..=255u8).zip(sample).filter(|(_, n)| **n > 0) {
        seen[n_seen] = (Reverse(n), byte);
        n_seen += 1;
    }
    seen[..n_seen].sort_unstable();
    for (nibble, &(Reverse(n), byte)) in (0..ESCAPE).zip(&seen[..n_seen]) {
        palette[usize::from(nibble)] = byte;
        inverse[usize::from(byte)] = nibble;
        covered += u64::from(n);
    }
    (palette, Inverse::new(inverse), covered)
}

/// Returns the counts of bytes, computed from the counts of pairs and the escapes.
fn marginals(pair_counts: &[u32; 256], palette: &[u8; 16], n: usize, escapes: &[u8]) -> [u32; 256] {
    let mut nibbles = [0u32; 16];
    for (pair, &count) in pair_counts.iter().enumerate() {
        nibbles[pair & 15] += count;
        nibbles[pair >> 4] += count;
    }
    // An odd length is padded with entry 0.
    nibbles[0] -= (n % 2) as u32;
    let mut counts = count(escapes);
    for (&byte, &n) in palette.iter().zip(&nibbles[..usize::from(ESCAPE)]) {
        counts[usize::from(byte)] += n;
    }
    counts
}

impl Pairs {
    /// Converts `plane` to pairs and counts them.
    fn fill(&mut self, isa: Isa, plane: &[u8], slices: Slices, inverse: &Inverse) -> [u32; 256] {
        self.symbols.resize(plane.len().div_ceil(2), 0);
        self.escapes.clear();
        for slice in 0..slices.count {
            let range = slices.range(slice);
            self.fill_slice(isa, &plane[range.clone()], range.start / 2, inverse);
            self.ends[slice] = self.escapes.len();
        }
        count(&self.symbols)
    }

    fn fill_slice(&mut self, isa: Isa, bytes: &[u8], first: usize, inverse: &Inverse) {
        let symbols = &mut self.symbols[first..first + bytes.len().div_ceil(2)];
        let blocks = bytes.chunks(2 * cpu::BLOCK).zip(symbols.chunks_mut(cpu::BLOCK));
        for (block, symbols) in blocks {
            let has_escapes = match (block.try_into(), symbols.try_into()) {
                (Ok(block), Ok(symbols)) => cpu::narrow(isa, inverse, block, symbols),
                _ => narrow_last(inverse, block, symbols),
            };
            if has_escapes {
                self.escapes.extend(block.iter().filter(|&&byte| inverse.nibble(byte) == ESCAPE));
            }
        }
    }
}

/// Narrows a partial block, whose last byte may lack a partner.
fn narrow_last(inverse: &Inverse, block: &[u8], symbols: &mut [u8]) -> bool {
    let nibble = |byte: Option<&u8>| byte.map_or(0, |&byte| inverse.nibble(byte));
    for (symbol, pair) in symbols.iter_mut().zip(block.chunks(2)) {
        *symbol = nibble(pair.first()) | nibble(pair.get(1)) << 4;
    }
    block.iter().any(|&byte| inverse.nibble(byte) == ESCAPE)
}
