//! Many phrases at once, on the CPU or a GPU: for datasets, and for whole phrases where a GPU is near.
//!
//! Two batches are under way: while one is copied to the host, the next is rendered.

use std::time::Instant;

use melisma_kernels::voice::{Bulk, Control, Note, Plan};
use melisma_kernels::{Buffer, Device, Queue};

use super::patch::{self, Pitch, Touch};
use super::phrase::Phrase;
use crate::runtime::memory::Budget;
use crate::{Error, Result};

/// What is rendered at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BulkConfig {
    /// Phrases of a batch at most.
    pub n_mixes: usize,
    /// Seconds of each.
    pub seconds: f64,
    /// Samples per second, 8,000 to 192,000.
    pub sample_rate: u32,
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

/// A batch under way.
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
            return Err(Error::invalid(format!("synth: {seconds} s at {sample_rate} Hz"))
                .with_hint("use up to 3600 seconds at 8000 to 192000 Hz"));
        }
        let bulk = Bulk { n_mixes, len: (seconds * f64::from(sample_rate)).round() as usize, position: 0 };
        let slot = || -> Result<Slot> {
            let bytes = bulk.out_len() * size_of::<f32>();
            let (out, host) = match device {
                Device::Cpu(_) => (Buffer::host(budget, bytes)?, Buffer::host(budget, bytes)?),
                Device::Cuda(cuda) => (Buffer::device(cuda, budget, bytes)?, Buffer::pinned(cuda, budget, bytes)?),
            };
            Ok(Slot { queue: device.queue(budget)?, plan: bulk.plan(device, budget)?, out, host })
        };
        Ok(Self { bulk, sample_rate, slots: [slot()?, slot()?], n_batches: 0, notes: Vec::new() })
    }

    /// Starts a batch; phrase i becomes mix i. At most two may be under way.
    ///
    /// # Errors
    /// A note is refused, or the device fails.
    pub fn start(&mut self, phrases: &[Phrase]) -> Result<Ticket> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.clear();
        for (mix, phrase) in phrases.iter().enumerate() {
            let mut name = 0u64;
            phrase.events(0, self.sample_rate, |note| {
                name += 1;
                let pitch = Pitch { key: note.key, semitones: 0.0, sample_rate: self.sample_rate };
                let seed = (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
                let touch = Touch { velocity: note.velocity, pan: note.pan, seed };
                let voice = patch::voice(note.instrument, pitch, touch);
                let release = (!patch::is_struck(note.instrument)).then_some(note.release);
                notes.push(Note { voice, mix: mix as u32, onset: note.start, release });
                Ok(())
            })?;
        }
        self.notes = notes;
        let notes = std::mem::take(&mut self.notes);
        let ticket = self.start_notes(&notes);
        self.notes = notes;
        ticket
    }

    /// As [`BulkRenderer::start`], with notes of any kind.
    ///
    /// # Errors
    /// As there.
    pub fn start_notes(&mut self, notes: &[Note]) -> Result<Ticket> {
        let place = self.n_batches % self.slots.len();
        let Slot { queue, plan, out, host } = &mut self.slots[place];
        plan.load(queue, notes, Control::default())?;
        plan.run(queue, out.view_mut()?)?;
        let _span = tracing::info_span!("copy", bytes = out.len()).entered();
        queue.start_copy(out, host, out.len())?;
        self.n_batches += 1;
        Ok(Ticket(place))
    }

    /// Waits for a batch: `[n_mixes, samples, 2]` floats.
    ///
    /// # Errors
    /// The device failed.
    pub fn wait(&mut self, ticket: Ticket) -> Result<&[f32]> {
        self.slots[ticket.0].host.view::<f32>()?.host()
    }

    /// One batch, from beginning to end.
    ///
    /// # Errors
    /// As [`BulkRenderer::start`].
    pub fn render(&mut self, phrases: &[Phrase]) -> Result<&[f32]> {
        let ticket = self.start(phrases)?;
        self.wait(ticket)
    }

    /// Samples of each mix.
    pub fn mix_len(&self) -> usize {
        self.bulk.len
    }
}

/// What rendering costs on a device: seconds for a batch of so many seconds of voices, copies included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of any batch.
    pub fixed: f64,
    /// Of every second of a voice.
    pub per_voice_second: f64,
}

impl Cost {
    /// Measures a small and a larger batch on `device`.
    ///
    /// # Errors
    /// The device fails.
    pub fn measure(device: &Device, budget: &Budget) -> Result<Self> {
        const SECONDS: f64 = 0.25;
        let time = |n_mixes: usize| -> Result<f64> {
            let mut renderer =
                BulkRenderer::new(device, budget, BulkConfig { n_mixes, seconds: SECONDS, sample_rate: 48_000 })?;
            let keys = vec![48, 55, 60, 64];
            let chord = super::phrase::Chord { onset: 0.0, duration: SECONDS, keys, velocity: 0.5 };
            let phrases = vec![Phrase { seconds: SECONDS, chords: vec![chord], ..Phrase::default() }; n_mixes];
            renderer.render(&phrases)?;
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let begin = Instant::now();
                renderer.render(&phrases)?;
                best = best.min(begin.elapsed().as_secs_f64());
            }
            Ok(best)
        };
        let (small, large) = (time(1)?, time(65)?);
        let per_voice_second = (large - small).max(1e-9) / (64.0 * 4.0 * SECONDS);
        Ok(Self { fixed: (small - per_voice_second * 4.0 * SECONDS).max(0.0), per_voice_second })
    }

    /// Seconds for a batch of `voice_seconds`.
    pub fn of(self, voice_seconds: f64) -> f64 {
        self.fixed + self.per_voice_second * voice_seconds
    }
}

/// Seconds of voices in a phrase, as far as it sounds.
pub fn voice_seconds(phrase: &Phrase) -> f64 {
    let mut sum = 0.0;
    let tail = 1.0;
    // Nothing is refused here.
    let _ = phrase.events(0, 1000, |note| {
        sum += (note.release - note.start) as f64 / 1000.0 + tail;
        Ok(())
    });
    sum
}
