//! The samples of the last steps, where the host reads them: while it reads one step, the device copies the next.

use std::ops::Range;

use melisma_kernels::Buffer;

use super::decode::Samples;
use crate::{Error, Result};

/// Steps whose samples can still be collected.
pub(super) const N_ENTRIES: usize = 4;

/// A step that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

impl Ticket {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// Pinned on a GPU's host, so that copies need no wait.
#[derive(Debug)]
pub(super) struct Ring {
    entries: Vec<Entry>,
    n_steps: u64,
}

/// The samples of one step.
#[derive(Debug)]
pub(super) struct Entry {
    /// `[B, T · hop]`
    pub(super) samples: Buffer,
    /// Of each row, those that exist.
    pub(super) ranges: Vec<Range<usize>>,
}

impl Ring {
    /// Buffers come from `samples`.
    pub(super) fn new(samples: impl Fn() -> Result<Buffer>) -> Result<Self> {
        let entry = |_| Ok(Entry { samples: samples()?, ranges: Vec::new() });
        Ok(Self { entries: (0..N_ENTRIES).map(entry).collect::<Result<_>>()?, n_steps: 0 })
    }

    /// The place of a new step: that of the oldest.
    pub(super) fn begin(&mut self) -> (Ticket, &mut Entry) {
        self.n_steps += 1;
        (Ticket(self.n_steps), &mut self.entries[(self.n_steps % N_ENTRIES as u64) as usize])
    }

    pub(super) fn entry(&mut self, ticket: Ticket) -> Result<&mut Entry> {
        if !(self.n_steps.saturating_sub(N_ENTRIES as u64) + 1..=self.n_steps).contains(&ticket.0) {
            let message =
                format!("engine: the samples of step {} are gone; the engine is at step {}", ticket.0, self.n_steps);
            return Err(
                Error::invalid(message).with_hint(format!("collect each of the last {N_ENTRIES} steps in time"))
            );
        }
        Ok(&mut self.entries[(ticket.0 % N_ENTRIES as u64) as usize])
    }

    /// Waits until the samples are there.
    pub(super) fn collect(&mut self, ticket: Ticket) -> Result<Samples<'_>> {
        let Entry { samples, ranges } = self.entry(ticket)?;
        Ok(Samples { samples: samples.view::<f32>()?.host()?, ranges })
    }
}
