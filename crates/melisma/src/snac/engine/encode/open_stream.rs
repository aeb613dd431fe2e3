//! The streams of an encoding engine: where each stands, and the codes that a step returns for them.

use melisma_kernels::layer::step::Row;

use super::super::ring::Collected;
use crate::snac::codes::{Codes, Frames};
use crate::{Error, Result};

/// The state that an engine has of a stream, apart from its slot of the arena.
#[derive(Debug, Default)]
pub(super) struct OpenStream {
    /// Samples that do not fill a frame yet.
    pub(super) pending: Vec<f32>,
    /// Samples taken, with the pending ones.
    pub(super) n_samples: usize,
    /// Latents taken.
    pub(super) start: i64,
    n_steps: i64,
}

impl OpenStream {
    /// Refuses samples that are not finite.
    pub(super) fn check(&self, samples: &[f32]) -> Result<()> {
        match samples.iter().position(|sample| !sample.is_finite()) {
            Some(at) => Err(Error::invalid(format!("sample {} is {}", self.n_samples + at, samples[at]))),
            None => Ok(()),
        }
    }

    pub(super) fn row(&self, slot: usize, end: i64) -> Row {
        Row { slot: slot as i64, n_steps: self.n_steps, start: self.start, end, ..Row::default() }
    }

    pub(super) fn advance(&mut self, n_latents: usize) {
        self.start += n_latents as i64;
        self.n_steps += 1;
    }
}

/// The codes that a step made final, some frames for each of its streams.
#[derive(Debug)]
pub struct Encoded<'a> {
    pub(super) collected: Collected<'a, i32>,
    /// Any codes of the model.
    pub(super) like: &'a Codes,
}

impl<'a> Encoded<'a> {
    /// Those of the step's stream `index`.
    pub fn of(&self, index: usize) -> Frames<'a> {
        self.like.frames_like(self.collected.of(index))
    }
}
