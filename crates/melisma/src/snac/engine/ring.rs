//! The samples of the last steps where the host reads them: while one step's are read, the next ones are on their way.

use std::ops::Range;

use melisma_kernels::Buffer;

use super::live::Samples;
use crate::{Error, Result};

/// Steps whose samples are kept.
const PLACES: usize = 4;

/// A step that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// Pinned on a GPU's host, so that copies need no wait.
#[derive(Debug)]
pub(super) struct Ring {
    places: Vec<Place>,
    n_steps: u64,
}

/// The samples of one step.
#[derive(Debug)]
pub(super) struct Place {
    /// `[B, T · hop]`
    pub(super) samples: Buffer,
    /// Of each row, those that exist.
    pub(super) ranges: Vec<Range<usize>>,
}

impl Ring {
    /// Buffers come from `samples`.
    pub(super) fn new(samples: impl Fn() -> Result<Buffer>) -> Result<Self> {
        let place = |_| Ok(Place { samples: samples()?, ranges: Vec::new() });
        Ok(Self { places: (0..PLACES).map(place).collect::<Result<_>>()?, n_steps: 0 })
    }

    /// The place of a new step: that of the oldest.
    pub(super) fn begin(&mut self) -> (Ticket, &mut Place) {
        self.n_steps += 1;
        (Ticket(self.n_steps), &mut self.places[(self.n_steps % PLACES as u64) as usize])
    }

    pub(super) fn place(&mut self, ticket: Ticket) -> Result<&mut Place> {
        if !(self.n_steps.saturating_sub(PLACES as u64) + 1..=self.n_steps).contains(&ticket.0) {
            let message = format!("engine: the samples of step {} are gone, it is at step {}", ticket.0, self.n_steps);
            return Err(Error::invalid(message).with_hint(format!("collect each of the last {PLACES} steps in time")));
        }
        Ok(&mut self.places[(ticket.0 % PLACES as u64) as usize])
    }

    /// Waits until the samples are there.
    pub(super) fn collect(&mut self, ticket: Ticket) -> Result<Samples<'_>> {
        let Place { samples, ranges } = self.place(ticket)?;
        Ok(Samples { samples: samples.view::<f32>()?.host()?, ranges })
    }
}
