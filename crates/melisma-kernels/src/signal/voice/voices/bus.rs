//! Blocks of samples, and the buses that sum them.

use super::super::Control;

/// The most samples that one call renders.
pub(super) const LONGEST: usize = 4096;

/// The sum of a bus's voices, in units of 1 / [`UNIT`](crate::signal::voice::UNIT).
#[derive(Debug, Clone, Default)]
pub struct Bus {
    /// Left.
    pub left: Vec<i64>,
    /// Right.
    pub right: Vec<i64>,
}

/// The block to render: `len` samples from `position`, at most
/// [`Voices::LONGEST`](crate::signal::voice::Voices::LONGEST).
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The first sample's number.
    pub position: u64,
    /// The number of samples.
    pub len: usize,
    /// Controls at the end of each tick that the block touches.
    pub controls: &'a [Control],
}

impl Bus {
    pub(super) fn new() -> Self {
        Self { left: Vec::with_capacity(LONGEST), right: Vec::with_capacity(LONGEST) }
    }

    pub(super) fn clear(&mut self, len: usize) {
        for side in [&mut self.left, &mut self.right] {
            side.clear();
            side.resize(len, 0);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, part) in [(&mut self.left, &other.left), (&mut self.right, &other.right)] {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
}
