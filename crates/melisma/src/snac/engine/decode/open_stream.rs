//! The streams of an engine: their ids, where each stands, and the samples that a step returns for them.

use std::ops::Range;

use melisma_kernels::layer::step::Row;

use crate::snac::noise::Noise;
use crate::snac::stream::Progress;

/// A stream of an [`Engine`](super::Engine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    pub(in crate::snac::engine) slot: usize,
    /// Tells the streams of a slot apart.
    pub(in crate::snac::engine) serial: u64,
}

/// The state that an engine has of a stream, apart from its slot of the arena.
#[derive(Debug, Clone)]
pub(in crate::snac::engine) struct OpenStream {
    pub(in crate::snac::engine) serial: u64,
    pub(in crate::snac::engine) noise: Noise,
    /// Latents taken.
    pub(in crate::snac::engine) start: i64,
    n_steps: i64,
    pub(in crate::snac::engine) progress: Progress,
}

/// The samples that a step made final, one list for each of its streams.
#[derive(Debug)]
pub struct Samples<'a> {
    pub(in crate::snac::engine) samples: &'a [f32],
    pub(in crate::snac::engine) ranges: &'a [Range<usize>],
}

impl<'a> Samples<'a> {
    /// Those of the step's stream `index`.
    pub fn of(&self, index: usize) -> &'a [f32] {
        &self.samples[self.ranges[index].clone()]
    }
}

impl OpenStream {
    pub(in crate::snac::engine) fn new(serial: u64, noise: Noise) -> Self {
        Self { serial, noise, start: 0, n_steps: 0, progress: Progress::default() }
    }

    /// Counts `n` more final samples. Returns how many of the first ones were handed out before they were final.
    pub(in crate::snac::engine) fn count_final(&mut self, n: usize) -> usize {
        let known = self.progress.gap().min(n as u64);
        self.progress.exact += n as u64;
        self.progress.emitted += n as u64 - known;
        known as usize
    }

    pub(in crate::snac::engine) fn row(&self, slot: usize, end: i64) -> Row {
        let (seed, noise) = match self.noise {
            Noise::Seed(seed) => (seed, 1),
            Noise::Off | Noise::Given(_) => (0, 0),
        };
        Row { slot: slot as i64, n_steps: self.n_steps, start: self.start, end, seed: seed as i64, noise }
    }

    pub(in crate::snac::engine) fn advance(&mut self, n_latents: usize) {
        self.start += n_latents as i64;
        self.n_steps += 1;
    }
}
