//! One tile's work, as callers and as kernels see it.

use bytemuck::{Pod, Zeroable};

use super::index::Segments;
use super::planes::Split;
use super::record::Tile;

/// Where one tile comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its elements' split.
    pub split: Split,
    /// Its number within its tensor.
    pub number: u64,
    /// Its entry in the index.
    pub tile: Tile,
    /// Where its record begins in the packed bytes, a multiple of 16.
    pub record: u64,
    /// Where its first byte goes; a GPU is faster where this is a multiple of 4.
    pub out: u64,
    /// Bytes of a row.
    pub row_len: u32,
    /// Rows.
    pub rows: u32,
    /// From the start of a row to that of the next, in bytes.
    pub row_step: u64,
    /// Its part of an index, with which a GPU decodes it by more threads.
    pub segments: Option<Segments>,
}

/// A job as the kernel reads it.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DeviceJob {
    pub(super) record: u64,
    pub(super) out: u64,
    /// Offset in scratch of the planes that cannot be joined while they are decoded.
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

/// What a block does, as the kernel reads it.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DevicePart {
    pub(super) job: u32,
    pub(super) first: u32,
}
