//! The encoder on a device: many streams in one batch, each latent computed once.
//!
//! A stream takes samples (mono, at the model's rate) in pieces of any length. A frame's codes leave with the first whole
//! frame of samples after which no later sample can change them. They depend neither on how the samples were cut, nor on
//! the streams that share a step, nor on the number of threads. They are those of the reference model, except where two
//! codes are equally near within the rounding of a sum.

mod clips;
mod layers;
mod need;
mod open_stream;
mod piece;

use melisma_kernels::layer::step::OPEN;
use melisma_kernels::{Budget, Queue};

use super::core::{CLIP_FRAMES, Core};
use super::options::EngineOptions;
use super::ring::Ticket;
use super::slots::StreamId;
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::codes::Codes;
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::{Error, Result};
use layers::Layers;
use open_stream::OpenStream;

pub use open_stream::Encoded;
pub use piece::Piece;

/// Encodes many streams in one batch on a device.
///
/// ```
/// use melisma::Context;
/// use melisma::snac::{Codes, EncodeEngine, EngineOptions, Model};
///
/// let (context, model) = (Context::cpu()?, Model::mini24()?);
/// let mut engine = EncodeEngine::new(&model, context.queue(), context.budget(), EngineOptions::new(1))?;
/// let samples: Vec<f32> = (0..10_000).map(|n| (0.05 * n as f32).sin() / 2.0).collect();
/// let whole = engine.encode(&samples)?;
///
/// let stream = engine.open()?;
/// let mut codes = Codes::empty(model.config());
/// for piece in samples.chunks(999) {
///     codes.append(engine.push(stream, piece)?.frames())?;
/// }
/// codes.append(engine.finish(stream)?.frames())?;
/// assert_eq!(codes, whole);
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct EncodeEngine {
    core: Core<Layers>,
    /// One frame.
    zeros: Vec<f32>,
    /// No codes, of the model's shape.
    none: Codes,
}

impl EncodeEngine {
    /// Creates an engine on the device of `queue`.
    ///
    /// # Errors
    /// `Unsupported` for a model without depthwise convolutions or a device without the kernels; `Memory` when `budget`
    /// refuses.
    pub fn new(model: &Model, queue: &Queue, budget: &Budget, options: EngineOptions) -> Result<Self> {
        Self::with_core(Core::new(model, queue, budget, options)?)
    }

    /// Returns another engine that shares the packed weights and has its own streams, for example one for each thread
    /// that serves streams. `queue` must be of the same device.
    ///
    /// # Errors
    /// `Memory` when `budget` refuses; `InvalidArgument` when the queue is of another device.
    pub fn sibling(&self, queue: &Queue, budget: &Budget, max_streams: usize) -> Result<Self> {
        Self::with_core(self.core.sibling(queue, budget, max_streams)?)
    }

    fn with_core(core: Core<Layers>) -> Result<Self> {
        let (zeros, none) = (vec![0.0; core.config.frame_len()], Codes::empty(&core.config));
        let mut engine = Self { core, zeros, none };
        // The first real step is then as fast as the others.
        engine.encode(&[0.0])?;
        Ok(engine)
    }

    /// Returns the most memory that an engine for models of this shape takes on `device`, its queue's scratch
    /// included, whatever it encodes; nothing for a model that the engine has no kernels for.
    pub fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        Core::<Layers>::needed(config, device, max_streams)
    }

    /// Returns the number of samples of a frame.
    pub fn frame_len(&self) -> usize {
        self.core.config.frame_len()
    }

    /// Returns the number of frames that a step can take, all streams together.
    pub fn max_frames(&self) -> usize {
        self.core.max_frames()
    }

    /// Begins a stream.
    ///
    /// # Errors
    /// All slots are taken, or the device fails.
    pub fn open(&mut self) -> Result<StreamId> {
        self.core.open(OpenStream::default())
    }

    /// Ends a stream without the codes that are still to come.
    ///
    /// # Errors
    /// The stream is unknown.
    pub fn close(&mut self, stream: StreamId) -> Result<()> {
        self.core.streams.close(stream)
    }

    /// Takes any number of samples of one stream, gives the codes that became final.
    ///
    /// # Errors
    /// `InvalidArgument` when the stream is unknown or a sample is not finite (the message has its position in the
    /// stream, and the stream takes none of the samples); otherwise the device failed.
    pub fn push(&mut self, stream: StreamId, samples: &[f32]) -> Result<Codes> {
        let frame_len = self.frame_len();
        let live = self.core.streams.get_mut(stream)?;
        live.check(samples)?;
        live.n_samples += samples.len();
        let mut codes = Vec::new();
        let mut rest = samples;
        if !live.pending.is_empty() {
            let (first, others) = samples.split_at(samples.len().min(frame_len - live.pending.len()));
            live.pending.extend_from_slice(first);
            rest = others;
            if live.pending.len() == frame_len {
                let mut frame = std::mem::take(&mut live.pending);
                codes.extend_from_slice(self.step_alone(stream, OPEN, &frame)?);
                frame.clear();
                self.core.streams.get_mut(stream)?.pending = frame;
            }
        }
        let (whole, last) = rest.split_at(rest.len() / frame_len * frame_len);
        for piece in whole.chunks(CLIP_FRAMES * frame_len) {
            codes.extend_from_slice(self.step_alone(stream, OPEN, piece)?);
        }
        self.core.streams.get_mut(stream)?.pending.extend_from_slice(last);
        Ok(Codes::valid(&self.core.config, codes))
    }

    /// Ends a stream: pads its end with silence to whole frames and whole attention windows, gives the codes that are
    /// still to come.
    ///
    /// # Errors
    /// The stream is unknown, or the device fails.
    pub fn finish(&mut self, stream: StreamId) -> Result<Codes> {
        let live = self.core.streams.get_mut(stream)?;
        let (n_samples, start, mut rest) = (live.n_samples, live.position.start, std::mem::take(&mut live.pending));
        let end = self.end(n_samples);
        let mut n_left = if n_samples == 0 { 0 } else { self.frames_left(start, end) };
        let mut codes = Vec::new();
        while n_left > 0 {
            let n_frames = n_left.min(CLIP_FRAMES);
            rest.resize(n_frames * self.frame_len(), 0.0);
            codes.extend_from_slice(self.step_alone(stream, end, &rest)?);
            rest.fill(0.0);
            n_left -= n_frames;
        }
        self.core.streams.close(stream)?;
        Ok(Codes::valid(&self.core.config, codes))
    }

    /// Takes whole frames of samples of some streams, each at most once and the same number of each. Gives the codes that
    /// became final. Nothing is allocated after the first steps.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown or repeated stream, a stream that waits for the rest of a frame, samples that are
    /// not finite or not whole frames, more frames than [`EncodeEngine::max_frames`]; otherwise the device failed.
    pub fn step(&mut self, input: &[(StreamId, &[f32])]) -> Result<Encoded<'_>> {
        let ticket = self.submit(input)?;
        self.collect(ticket)
    }

    /// Does the first half of [`EncodeEngine::step`]: starts it. On a GPU the next step can be submitted while
    /// this one runs, so that the device never waits for the host; [`EncodeEngine::collect`] gives the codes, in any
    /// order.
    ///
    /// # Errors
    /// As [`EncodeEngine::step`].
    pub fn submit(&mut self, input: &[(StreamId, &[f32])]) -> Result<Ticket> {
        let n_frames = self.check(input)?;
        let n_latents = n_frames * self.core.config.frame_latents();
        self.core.rows.clear();
        for (stream, samples) in input {
            let live = self.core.streams.get_mut(*stream)?;
            self.core.rows.push(live.position.row(stream.slot, OPEN));
            live.n_samples += samples.len();
            live.position.advance(n_latents);
        }
        self.core.batch.set_input(input.iter().map(|(_, samples)| *samples))?;
        self.core.run(n_latents, &())
    }

    /// Returns the codes that a submitted step made final, once they are there. The last four steps keep their codes;
    /// [`EncodeEngine::push`], [`EncodeEngine::finish`] and [`EncodeEngine::encode`] make steps too.
    ///
    /// # Errors
    /// The step is more than four steps back, or the device failed.
    pub fn collect(&mut self, ticket: Ticket) -> Result<Encoded<'_>> {
        Ok(Encoded { collected: self.core.batch.ring.collect(ticket)?, like: &self.none })
    }

    /// Makes one step of one stream, whose samples are checked, and returns the codes that exist.
    fn step_alone(&mut self, stream: StreamId, end: i64, samples: &[f32]) -> Result<&[i32]> {
        let n_latents = samples.len() / self.core.config.hop_len();
        let live = self.core.streams.get_mut(stream)?;
        self.core.rows.clear();
        self.core.rows.push(live.position.row(stream.slot, end));
        live.position.advance(n_latents);
        self.core.batch.set_input(std::iter::once(samples))?;
        let ticket = self.core.run(n_latents, &())?;
        Ok(self.core.batch.ring.collect(ticket)?.of(0))
    }

    /// Returns the number of latents of a padded clip.
    fn end(&self, n_samples: usize) -> i64 {
        let padded = n_samples.checked_next_multiple_of(self.core.config.padded_len()).unwrap_or(usize::MAX);
        (padded / self.core.config.hop_len()) as i64
    }

    /// Returns the frames until the last code of a stream of `end` latents that has taken `start`.
    fn frames_left(&self, start: i64, end: i64) -> usize {
        (end - start) as usize / self.core.config.frame_latents()
            + self.core.batch.chain.timeline.lag / self.core.config.frame_latents()
    }

    /// Returns the number of frames that each stream of a step has.
    fn check(&mut self, input: &[(StreamId, &[f32])]) -> Result<usize> {
        self.core.streams.check_each(input.iter().map(|(stream, _)| *stream))?;
        let (len, frame_len) = (input.first().map_or(0, |(_, samples)| samples.len()), self.frame_len());
        for (stream, samples) in input {
            let live = self.core.streams.get(*stream)?;
            if samples.len() != len || len % frame_len != 0 {
                let message = format!(
                    "engine: all streams of a step need the same whole frames of {frame_len} samples: got {len} and {}",
                    samples.len()
                );
                return Err(Error::invalid(message).with_hint("push samples of any number to one stream at a time"));
            }
            if !live.pending.is_empty() {
                let n_pending = live.pending.len();
                return Err(Error::invalid(format!(
                    "engine: a stream waits for the rest of a frame after {n_pending}"
                )));
            }
            live.check(samples)?;
        }
        let n_frames = len / frame_len;
        self.core.check_room(input.len(), n_frames)?;
        Ok(n_frames)
    }
}
