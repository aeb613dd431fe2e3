//! Many phrases at once, on the CPU or a GPU: for datasets, and for whole phrases on a GPU.
//!
//! Two batches are in flight: while one is copied to the host, the next is rendered.
//!
//! # Why not a CUDA graph?
//!
//! Notes change the shapes of launches, so every batch would be recorded again, and a batch is
//! three launches. `melisma bench synth` measures what replaying would save.

use melisma_kernels::signal::voice::{Bulk, Control, Controls, Note, Plan};
use melisma_kernels::{Buffer, Device, DeviceSpan, Queue};

use super::instrument::Instrument;
use super::note::PlacedNote;
use super::phrase::Phrase;
use crate::runtime::memory::Budget;
use crate::{Error, Result};

/// The size of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BulkConfig {
    /// Phrases of a batch at most.
    pub n_mixes: usize,
    /// Seconds of each.
    pub seconds: f64,
    /// Samples per second, 8,000 to 192,000.
    pub sample_rate: u32,
}

impl BulkConfig {
    /// Allows `n_mixes` phrases of `seconds` at `sample_rate`.
    pub fn new(n_mixes: usize, seconds: f64, sample_rate: u32) -> Self {
        Self { n_mixes, seconds, sample_rate }
    }
}

/// Renders batches of phrases, each from its own beginning. On the CPU a phrase has the bits that an engine gives it.
#[derive(Debug)]
pub struct BulkRenderer {
    bulk: Bulk,
    sample_rate: u32,
    slots: [Slot; 2],
    n_batches: usize,
    notes: Vec<Note>,
}

/// A batch in flight.
#[derive(Debug)]
pub struct Ticket(usize);

#[derive(Debug)]
struct Slot {
    queue: Queue,
    plan: Plan,
    out: Buffer,
    host: Buffer,
}

impl BulkRenderer {
    /// Makes buffers for batches of `config`; kernels are compiled and warm.
    ///
    /// # Errors
    /// A figure is outside of its range, memory is short, or the device fails.
    pub fn new(device: &Device, budget: &Budget, config: BulkConfig) -> Result<Self> {
        let BulkConfig { n_mixes, seconds, sample_rate } = config;
        if !(0.0..=3600.0).contains(&seconds) || !(8_000..=192_000).contains(&sample_rate) {
            return Err(Error::invalid(format!("synth: cannot render {seconds} s at {sample_rate} Hz"))
                .with_hint("use up to 3600 seconds at 8000 to 192000 Hz"));
        }
        let bulk = Bulk { n_mixes, len: (seconds * f64::from(sample_rate)).round() as usize, position: 0 };
        let slot = || -> Result<Slot> {
            // Checks that the sizes do not overflow.
            let plan = bulk.plan(device, budget)?;
            let bytes = bulk.out_len() * size_of::<f32>();
            let (out, host) = match device {
                Device::Cpu(_) => (Buffer::host(budget, bytes)?, Buffer::host(budget, bytes)?),
                Device::Cuda(cuda) => (Buffer::device(cuda, budget, bytes)?, Buffer::pinned(cuda, budget, bytes)?),
            };
            Ok(Slot { queue: device.queue(budget)?, plan, out, host })
        };
        let mut renderer = Self { bulk, sample_rate, slots: [slot()?, slot()?], n_batches: 0, notes: Vec::new() };
        if matches!(device, Device::Cuda(_)) {
            renderer.warm_up()?;
        }
        Ok(renderer)
    }

    /// Renders a note of every instrument through both slots, so that the first batch takes as long as any other.
    fn warm_up(&mut self) -> Result<()> {
        let note = |instrument| {
            let note = PlacedNote { instrument, channel: 0, key: 60, velocity: 0.5, pan: 0.0, start: 0, release: 0 };
            Note { release: None, ..note.voiced(0, self.sample_rate) }
        };
        let notes = Instrument::ALL.map(note);
        for _ in 0..self.slots.len() {
            let ticket = self.start_notes(&notes, Controls::Still(Control::default()))?;
            self.wait(ticket)?;
        }
        Ok(())
    }

    /// Starts a batch; phrase i becomes mix i. At most two may be in flight.
    ///
    /// # Errors
    /// Those of [`Phrase::check`], there are more phrases than mixes, a note is refused, or the device fails.
    pub fn start(&mut self, phrases: &[Phrase]) -> Result<Ticket> {
        if phrases.len() > self.bulk.n_mixes {
            let (n, most) = (phrases.len(), self.bulk.n_mixes);
            return Err(Error::invalid(format!("{n} phrases do not fit into a batch of {most} mixes")));
        }
        phrases.iter().try_for_each(Phrase::check)?;
        let mut notes = std::mem::take(&mut self.notes);
        notes.clear();
        for (mix, phrase) in phrases.iter().enumerate() {
            let mut name = 0u64;
            phrase.place(0, self.sample_rate, |note| {
                name += 1;
                notes.push(Note { mix: mix as u32, ..note.voiced(name, self.sample_rate) });
                Ok(())
            })?;
        }
        self.notes = notes;
        let notes = std::mem::take(&mut self.notes);
        let ticket = self.start_notes(&notes, Controls::Still(Control::default()));
        self.notes = notes;
        ticket
    }

    /// Works like [`BulkRenderer::start`], with notes of any kind.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    pub fn start_notes(&mut self, notes: &[Note], controls: Controls<'_>) -> Result<Ticket> {
        let place = self.n_batches % self.slots.len();
        let Slot { queue, plan, out, host } = &mut self.slots[place];
        plan.load(queue, notes, controls)?;
        plan.run(queue, out.view_mut()?)?;
        queue.start_copy(out, host, out.len())?;
        self.n_batches += 1;
        Ok(Ticket(self.n_batches - 1))
    }

    /// Waits for a batch: `[n_mixes, samples, 2]` floats.
    ///
    /// # Errors
    /// Two later batches were started, which reuse its buffers; or the device failed.
    pub fn wait(&mut self, ticket: Ticket) -> Result<&[f32]> {
        let n_later = self.n_batches.checked_sub(ticket.0 + 1);
        if n_later.is_none_or(|n| n >= self.slots.len()) {
            return Err(Error::invalid("this batch is gone: two later ones were started, or another renderer made it")
                .with_hint("collect a batch before the next but one is started"));
        }
        let place = ticket.0 % self.slots.len();
        self.slots[place].host.view::<f32>()?.host()
    }

    /// Renders one batch, from beginning to end.
    ///
    /// # Errors
    /// As [`BulkRenderer::start`].
    pub fn render(&mut self, phrases: &[Phrase]) -> Result<&[f32]> {
        let ticket = self.start(phrases)?;
        self.wait(ticket)
    }

    /// Begins to record when each kernel runs; see [`BulkRenderer::device_spans`].
    ///
    /// # Errors
    /// The device refuses.
    pub fn start_timing(&self) -> Result<()> {
        self.slots.iter().try_for_each(|slot| slot.queue.start_timing())
    }

    /// Returns what ran on the device since the last call, once [`BulkRenderer::start_timing`] was called; nothing on
    /// the CPU.
    ///
    /// # Errors
    /// The device failed.
    #[doc(hidden)]
    pub fn device_spans(&self) -> Result<Vec<DeviceSpan>> {
        let spans = self.slots.iter().map(|slot| slot.queue.device_spans()).collect::<Result<Vec<_>>>()?;
        Ok(spans.concat())
    }

    /// Returns the number of mixes of a batch.
    pub fn n_mixes(&self) -> usize {
        self.bulk.n_mixes
    }

    /// Returns the number of samples of each mix.
    pub fn mix_len(&self) -> usize {
        self.bulk.len
    }
}
