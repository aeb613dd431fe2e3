//! The streams of a decoding engine: where each stands, and the samples that a step returns for them.

use melisma_kernels::layer::step::Row;

use super::super::ring::Collected;
use super::super::slots::Position;
use crate::snac::noise::Noise;
use crate::snac::progress::Progress;

/// The state that an engine has of a stream, apart from its slot of the arena.
#[derive(Debug, Clone)]
pub(super) struct OpenStream {
    pub(super) noise: Noise,
    pub(super) position: Position,
    pub(super) progress: Progress,
}

/// The samples that a step made final, one list for each of its streams.
#[derive(Debug)]
pub struct Samples<'a>(pub(super) Collected<'a, f32>);

impl<'a> Samples<'a> {
    /// Returns those of the step's stream `index`.
    pub fn of(&self, index: usize) -> &'a [f32] {
        self.0.of(index)
    }
}

impl OpenStream {
    pub(super) fn new(noise: Noise) -> Self {
        Self { noise, position: Position::default(), progress: Progress::default() }
    }

    /// Counts `n` more final samples. Returns how many of the first ones were handed out before they were final.
    pub(super) fn count_final(&mut self, n: usize) -> usize {
        let known = self.progress.gap().min(n as u64);
        self.progress.exact += n as u64;
        self.progress.emitted += n as u64 - known;
        known as usize
    }

    pub(super) fn row(&self, slot: usize, end: i64) -> Row {
        let (seed, noise) = match self.noise {
            Noise::Seed(seed) => (seed, 1),
            Noise::Off | Noise::Given(_) => (0, 0),
        };
        Row { seed: seed as i64, noise, ..self.position.row(slot, end) }
    }
}
