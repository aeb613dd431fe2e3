//! Blocks cut into chunks, and groups whose sums are not yet in a bus.

use super::super::cpu::{Stretch, Sums};
use super::super::{CHUNK, TICK};
use super::bus::{Block, Bus, LONGEST};
use crate::Isa;

/// A chunk of a block: its stretch, and its place in the block.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) first: usize,
    pub(super) stretch: Stretch<'a>,
}

pub(super) fn check(block: Block<'_>) {
    let n_ticks = (block.position as usize % TICK + block.len).div_ceil(TICK);
    assert!(block.len <= LONGEST && block.controls.len() >= n_ticks, "voice: a block that does not fit");
}

/// Cuts a block at multiples of [`CHUNK`].
pub(super) fn chunks(block: Block<'_>) -> impl Iterator<Item = Chunk<'_>> {
    let tick = TICK as u64;
    let first_tick = block.position / tick;
    let mut first = 0;
    std::iter::from_fn(move || {
        let now = block.position + first as u64;
        let len = (CHUNK - now as usize % CHUNK).min(block.len - first);
        let stretch = Stretch { now, len, controls: &block.controls[(now / tick - first_tick) as usize..] };
        let chunk = Chunk { first, stretch };
        first += len;
        (len > 0).then_some(chunk)
    })
}

/// Groups whose sums are not yet in the bus.
pub(super) struct Pending<'a> {
    isa: Isa,
    chunk: Chunk<'a>,
    sums: &'a mut Sums,
    bus: &'a mut Bus,
    has_groups: bool,
}

impl<'a> Pending<'a> {
    pub(super) fn new(isa: Isa, chunk: Chunk<'a>, sums: &'a mut Sums, bus: &'a mut Bus) -> Self {
        Self { isa, chunk, sums, bus, has_groups: false }
    }

    pub(super) fn add(&mut self, render: impl FnOnce(&mut Sums)) {
        let is_full = self.sums.admit(self.chunk.stretch.len);
        render(self.sums);
        self.has_groups = true;
        if is_full {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        if self.has_groups {
            let range = self.chunk.first..self.chunk.first + self.chunk.stretch.len;
            self.sums.add_to(self.isa, &mut self.bus.left[range.clone()], &mut self.bus.right[range]);
            self.has_groups = false;
        }
    }
}
