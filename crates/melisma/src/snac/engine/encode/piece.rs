//! Streams whose length is known: each ends within a step, while the others go on.

use super::super::ring::Ticket;
use super::super::slots::StreamId;
use super::EncodeEngine;
use super::clips::padded;
use crate::{Error, Result};

/// The next samples of a stream whose length is known.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Its next samples: those of all frames of the step, or the last ones of the stream.
    pub samples: &'a [f32],
    /// Samples of the whole stream.
    pub n_samples: usize,
}

impl<'a> Piece<'a> {
    /// Returns the next `samples` of `stream`, which has `n_samples` in all.
    pub fn new(stream: StreamId, samples: &'a [f32], n_samples: usize) -> Self {
        Self { stream, samples, n_samples }
    }
}

impl EncodeEngine {
    /// Returns the number of frames that steps must take of a stream of `n_samples` samples until its last code. Those beyond its
    /// last sample have no samples.
    pub fn step_frames(&self, n_samples: usize) -> usize {
        if n_samples == 0 { 0 } else { self.frames_left(0, self.end(n_samples)) }
    }

    /// Works like [`EncodeEngine::submit`], with `n_frames` frames of streams whose length is known: their ends are
    /// padded within the step. After [`EncodeEngine::step_frames`] frames a stream has all of its codes, and is
    /// closed without [`EncodeEngine::finish`].
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown or repeated stream, too few or too many samples, samples that are not finite, or
    /// more frames than [`EncodeEngine::max_frames`]; otherwise the device failed.
    pub fn submit_pieces(&mut self, pieces: &[Piece<'_>], n_frames: usize) -> Result<Ticket> {
        let len = n_frames.saturating_mul(self.frame_len());
        self.core.streams.check_each(pieces.iter().map(|piece| piece.stream))?;
        for piece in pieces {
            let live = self.core.streams.get(piece.stream)?;
            let expected = piece.n_samples.saturating_sub(live.n_samples).min(len);
            if piece.samples.len() != expected || !live.pending.is_empty() {
                let given = piece.samples.len();
                return Err(Error::invalid(format!("engine: {given} samples of a stream; this step takes {expected}")));
            }
            live.check(piece.samples)?;
        }
        self.core.check_room(pieces.len(), n_frames)?;
        let n_latents = n_frames * self.core.config.frame_latents();
        self.core.rows.clear();
        for piece in pieces {
            let end = self.end(piece.n_samples);
            let live = self.core.streams.get_mut(piece.stream)?;
            self.core.rows.push(live.position.row(piece.stream.slot, end));
            live.n_samples += piece.samples.len();
            live.position.advance(n_latents);
        }
        let zeros = &self.zeros;
        self.core.batch.set_input(pieces.iter().flat_map(|piece| padded(piece.samples, len, zeros)))?;
        self.core.run(n_latents, &())
    }
}
