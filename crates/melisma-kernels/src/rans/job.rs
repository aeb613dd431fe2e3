//! The work on one tile, as callers and kernels see it.

use bytemuck::{Pod, Zeroable};

use super::index::Segments;
use super::planes::Split;
use super::record::Tile;

/// The source and destination of one tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The split of its elements.
    pub split: Split,
    /// Its number within its tensor.
    pub number: u64,
    /// Its entry in the index.
    pub tile: Tile,
    /// Offset of its record in the packed bytes, a multiple of 16.
    pub record: u64,
    /// Offset of its first output byte; multiples of 4 are faster on a GPU.
    pub out: u64,
    /// Bytes per row.
    pub row_len: u32,
    /// The number of rows.
    pub rows: u32,
    /// Bytes from the start of one row to the next.
    pub row_step: u64,
    /// Its part of an index, which lets a GPU decode it with more threads.
    pub segments: Option<Segments>,
}

/// The outcome of a tile, as the kernel writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// Decoded, and its hash matches.
    Whole = 0,
    /// Its record contradicts the format.
    Malformed = 1,
    /// A stream did not end where it should.
    Stream = 2,
    /// Its hash does not match.
    Hash = 3,
}

impl Status {
    /// Converts the word that the kernel wrote.
    pub fn from_word(word: i32) -> Self {
        match word {
            0 => Self::Whole,
            2 => Self::Stream,
            3 => Self::Hash,
            _ => Self::Malformed,
        }
    }
}

/// A job as the kernel reads it.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DeviceJob {
    pub(super) record: u64,
    pub(super) out: u64,
    /// Scratch offset of the planes that cannot be joined while they are decoded.
    pub(super) scratch: u64,
    pub(super) number: u64,
    pub(super) hash: u64,
    pub(super) row_step: u64,
    pub(super) index: u64,
    pub(super) record_len: u32,
    pub(super) n: u32,
    pub(super) modes: u32,
    pub(super) split: u32,
    pub(super) row_len: u32,
    pub(super) segment: u32,
    pub(super) stride: u32,
    pub(super) unused: u32,
}

/// The segments that a thread block decodes: a job and its first segment, as the kernel reads them.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DevicePart {
    pub(super) job: u32,
    pub(super) first: u32,
}
