//! The bytes of a tile: its entry in the index, and its record.
//!
//! A record is the length of each plane (u32, padded to 16 bytes), then the planes. Every part
//! begins on a multiple of 16 bytes. A coded plane has, for S slices:
//!
//! | part | bytes |
//! |---|---|
//! | for each slice the number of words and of escapes | 8 S |
//! | palette (pairs only): entries 0 to 14 and a zero | 16 |
//! | frequency table | 128 to 480 |
//! | for each slice 32 states | 128 S |
//! | for each slice its words | 2 for each |
//! | the escapes of all slices | 1 for each |

use super::{LANES, MAX_SLICES, Slices, table};
use crate::{Error, ErrorKind, Result};

/// Planes of the widest elements.
pub(super) const MAX_PLANES: usize = 8;
/// Parts begin on multiples of this.
pub(super) const ALIGN: usize = 16;
/// The most bytes of a decoded tile: 1024 x 1024 elements of 8 bytes.
pub const MAX_TILE_LEN: usize = 8 << 20;

/// How a plane is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Unchanged.
    Raw,
    /// One byte for all elements.
    Constant,
    /// rANS over bytes.
    Bytes,
    /// rANS over pairs of neighbours, each one of 15 palette entries or an escape.
    Pairs,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Raw, Self::Constant, Self::Bytes, Self::Pairs];

    /// Returns its name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Constant => "constant",
            Self::Bytes => "bytes",
            Self::Pairs => "pairs",
        }
    }
}

/// The index entry of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Hash of its number and its decoded bytes.
    pub hash: u64,
    /// Bytes of its record.
    pub len: u32,
    /// 4 bits per plane, plane 0 lowest.
    pub(super) modes: u32,
}

impl Tile {
    /// Bytes of an entry in the index.
    pub const STORED: usize = 16;

    pub(super) fn new(hash: u64, len: usize, modes: &[Mode]) -> Self {
        let modes = modes.iter().rev().fold(0, |packed, &mode| packed << 4 | mode as u32);
        Self { hash, len: len as u32, modes }
    }

    /// Returns the entry as stored: hash, length, modes, little-endian.
    pub fn to_bytes(&self) -> [u8; Self::STORED] {
        let mut bytes = [0; Self::STORED];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..].copy_from_slice(&self.modes.to_le_bytes());
        bytes
    }

    /// Reads an entry.
    pub fn from_bytes(bytes: &[u8; Self::STORED]) -> Self {
        let [a, b, c, d, e, f, g, h, l0, l1, l2, l3, m0, m1, m2, m3] = *bytes;
        Self {
            hash: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            modes: u32::from_le_bytes([m0, m1, m2, m3]),
        }
    }

    /// Returns the mode of a plane.
    ///
    /// # Errors
    /// `Version`: a mode that this build does not know.
    pub fn mode(&self, plane: usize) -> Result<Mode> {
        let number = self.modes.checked_shr(4 * plane as u32).unwrap_or(0) & 15;
        Mode::ALL.get(number as usize).copied().ok_or_else(|| {
            Error::new(ErrorKind::Version, format!("plane {plane} has mode {number}, which is not known"))
        })
    }
}

/// The parts of a coded plane.
#[derive(Debug, Clone)]
pub(super) struct Coded<'a> {
    pub(super) palette: [u8; 16],
    pub(super) frequencies: table::Frequencies,
    pub(super) states: [&'a [u8; 4 * LANES]; MAX_SLICES],
    pub(super) words: [&'a [u8]; MAX_SLICES],
    pub(super) escapes: [&'a [u8]; MAX_SLICES],
}

impl<'a> Coded<'a> {
    /// Parses a plane that must consist of exactly these parts.
    pub(super) fn read(mode: Mode, slices: Slices, plane: &'a [u8]) -> Result<Self> {
        let mut rest = Parts { bytes: plane, at: 0 };
        let counts = rest.take(8 * slices.count)?;
        let mut coded = Self {
            palette: [0; 16],
            frequencies: [0; 256],
            states: [&[0; 4 * LANES]; MAX_SLICES],
            words: [&[]; MAX_SLICES],
            escapes: [&[]; MAX_SLICES],
        };
        if mode == Mode::Pairs {
            coded.palette.copy_from_slice(rest.take(16)?);
        }
        let (frequencies, table_len) = table::read(rest.left())?;
        coded.frequencies = frequencies;
        rest.take(table_len)?;
        for states in &mut coded.states[..slices.count] {
            *states = rest.take(4 * LANES)?.try_into().map_err(|_| cut())?;
        }
        let mut n_escapes = [0; MAX_SLICES];
        for (slice, counts) in counts.as_chunks::<8>().0.iter().enumerate() {
            let [a, b, c, d, e, f, g, h] = *counts;
            coded.words[slice] = rest.take(2 * u32::from_le_bytes([a, b, c, d]) as usize)?;
            n_escapes[slice] = u32::from_le_bytes([e, f, g, h]) as usize;
        }
        let total = n_escapes.iter().sum();
        let mut escapes = rest.take(total)?;
        for (part, n) in coded.escapes.iter_mut().zip(n_escapes) {
            (*part, escapes) = escapes.split_at(n);
        }
        match rest.left() {
            [] => Ok(coded),
            left => Err(Error::corrupt(format!("{} bytes are left after a plane", left.len()))),
        }
    }
}

/// Takes parts from the front, each padded with zeros to a multiple of [`ALIGN`].
struct Parts<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parts<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(len.next_multiple_of(ALIGN)).ok_or_else(cut)?;
        let part = self.bytes.get(self.at..end).ok_or_else(cut)?;
        self.at = end;
        let (part, padding) = part.split_at(len);
        if padding.iter().any(|&byte| byte != 0) {
            return Err(Error::corrupt("padding that is not zero"));
        }
        Ok(part)
    }

    fn left(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

/// Cuts a record into its planes.
pub(super) fn planes(record: &[u8], n_planes: usize) -> Result<[&[u8]; MAX_PLANES]> {
    let mut rest = Parts { bytes: record, at: 0 };
    let lengths = rest.take(4 * n_planes)?;
    let mut planes = [&[][..]; MAX_PLANES];
    for (plane, len) in planes.iter_mut().zip(lengths.as_chunks::<4>().0) {
        *plane = rest.take(u32::from_le_bytes(*len) as usize)?;
    }
    match rest.left() {
        [] => Ok(planes),
        left => Err(Error::corrupt(format!("{} bytes are left after a record", left.len()))),
    }
}

fn cut() -> Error {
    Error::truncated("a tile's record is cut off")
}
