//! The streams of an encoding engine: where each stands, and the codes that a step returns for them.

use super::super::ring::Collected;
use super::super::slots::Position;
use crate::snac::codes::{Codes, Frames};
use crate::{Error, Result};

/// The state that an engine has of a stream, apart from its slot of the arena.
#[derive(Debug, Default)]
pub(super) struct OpenStream {
    /// Samples that do not fill a frame yet.
    pub(super) pending: Vec<f32>,
    /// Samples taken, with the pending ones.
    pub(super) n_samples: usize,
    pub(super) position: Position,
}

impl OpenStream {
    /// Refuses samples that are not finite.
    pub(super) fn check(&self, samples: &[f32]) -> Result<()> {
        match samples.iter().position(|sample| !sample.is_finite()) {
            Some(at) => Err(Error::invalid(format!("sample {} is {}", self.n_samples + at, samples[at]))),
            None => Ok(()),
        }
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
    /// Returns those of the step's stream `index`.
    pub fn of(&self, index: usize) -> Frames<'a> {
        self.like.frames_like(self.collected.of(index))
    }
}
