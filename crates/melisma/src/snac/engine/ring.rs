//! The outputs of the last steps, where the host reads them: while it reads one step, the device copies the next.

use std::marker::PhantomData;
use std::ops::Range;

use melisma_kernels::{Buffer, Element};

use crate::{Error, Result};

/// Steps whose outputs can still be collected.
pub(super) const N_ENTRIES: usize = 4;

/// A step that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// Pinned on a GPU's host, so that copies need no wait.
#[derive(Debug)]
pub(super) struct Ring<T> {
    entries: Vec<Entry>,
    n_steps: u64,
    element: PhantomData<T>,
}

/// The outputs of one step.
#[derive(Debug)]
pub(super) struct Entry {
    /// `[B, F, frame_out]`
    pub(super) buffer: Buffer,
    /// Of each row, those that exist.
    pub(super) ranges: Vec<Range<usize>>,
}

/// The outputs of a collected step.
#[derive(Debug)]
pub(super) struct Collected<'a, T> {
    pub(super) elements: &'a [T],
    pub(super) ranges: &'a [Range<usize>],
}

impl<'a, T> Collected<'a, T> {
    /// Returns those of row `index`.
    pub(super) fn of(&self, index: usize) -> &'a [T] {
        &self.elements[self.ranges[index].clone()]
    }
}

impl<T: Element> Ring<T> {
    /// Creates a ring whose buffers come from `buffer`.
    pub(super) fn new(buffer: impl Fn() -> Result<Buffer>) -> Result<Self> {
        let entry = |_| Ok(Entry { buffer: buffer()?, ranges: Vec::new() });
        let entries = (0..N_ENTRIES).map(entry).collect::<Result<_>>()?;
        Ok(Self { entries, n_steps: 0, element: PhantomData })
    }

    /// Returns the place of a new step: that of the oldest.
    pub(super) fn begin(&mut self) -> (Ticket, &mut Entry) {
        self.n_steps += 1;
        (Ticket(self.n_steps), &mut self.entries[(self.n_steps % N_ENTRIES as u64) as usize])
    }

    pub(super) fn entry(&mut self, ticket: Ticket) -> Result<&mut Entry> {
        if !(self.n_steps.saturating_sub(N_ENTRIES as u64) + 1..=self.n_steps).contains(&ticket.0) {
            let message =
                format!("engine: the results of step {} are gone; the engine is at step {}", ticket.0, self.n_steps);
            return Err(
                Error::invalid(message).with_hint(format!("collect each of the last {N_ENTRIES} steps in time"))
            );
        }
        Ok(&mut self.entries[(ticket.0 % N_ENTRIES as u64) as usize])
    }

    /// Waits until the outputs are there.
    pub(super) fn collect(&mut self, ticket: Ticket) -> Result<Collected<'_, T>> {
        let Entry { buffer, ranges } = self.entry(ticket)?;
        Ok(Collected { elements: buffer.view::<T>()?.host()?, ranges })
    }
}
