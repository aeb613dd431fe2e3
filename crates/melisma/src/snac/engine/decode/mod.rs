//! The decoder on a device: many streams in one batch, each latent computed once.
//!
//! A stream is a slot of state. [`Engine::step`] takes one frame (or several) of each of some streams and gives the samples
//! that became final; the others are not touched. Samples do not depend, in any bit, on which streams share a step or on
//! how many frames a step has, and so [`Engine::decode`], which takes many frames at once, gives the samples of a stream.
//! They are those of the reference model within 1e-4 of full scale.

mod layers;
mod need;
mod open_stream;

use melisma_kernels::layer::step::OPEN;
use melisma_kernels::{Budget, Queue};

use super::core::{CLIP_FRAMES, Core};
use super::options::EngineOptions;
use super::ring::Ticket;
use super::slots::StreamId;
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::codes::{Codes, Frames};
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::snac::noise::Noise;
use crate::snac::progress::Progress;
use crate::{Error, Result};
use layers::Layers;
use open_stream::OpenStream;

pub use open_stream::Samples;

/// Decodes many streams in one batch on a device.
///
/// ```
/// use melisma::Context;
/// use melisma::snac::{Codes, Engine, EngineOptions, Model, Noise};
///
/// let (context, model) = (Context::cpu()?, Model::mini24()?);
/// let mut engine = Engine::new(&model, context.queue(), context.budget(), EngineOptions::new(2))?;
/// let (first, second) = (engine.open(Noise::Seed(1))?, engine.open(Noise::Seed(2))?);
/// let codes = Codes::from_frames(model.config(), &[0, 1, 2, 3, 4, 5, 6].repeat(8))?;
/// let mut samples = [Vec::new(), Vec::new()];
/// for frame in codes.frames().chunks(1) {
///     let step = engine.step(&[(first, frame), (second, frame)])?;
///     samples[0].extend_from_slice(step.of(0));
///     samples[1].extend_from_slice(step.of(1));
/// }
/// samples[0].extend(engine.finish(first)?);
/// samples[1].extend(engine.finish(second)?);
/// assert_eq!(samples.map(|stream| stream.len()), [8 * 2048; 2]);
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    core: Core<Layers>,
    /// The noise of the step that is being set up.
    noise: Vec<Noise>,
}

impl Engine {
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
        let mut engine = Self { core, noise: Vec::new() };
        // The first real step is then as fast as the others.
        let (slot, codes) = (engine.core.batch.capacity.spare(), vec![0; engine.core.config.n_slots()]);
        engine.step_alone(&mut OpenStream::new(Noise::default()), slot, &codes)?;
        Ok(engine)
    }

    /// Returns the most memory that an engine for models of this shape takes on `device`, its queue's scratch
    /// included, whatever it decodes; nothing for a model that the engine has no kernels for.
    pub fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        Core::<Layers>::needed(config, device, max_streams)
    }

    /// Returns the latency from input to output, in samples.
    pub fn lag(&self) -> usize {
        self.core.batch.chain.timeline.lag
    }

    /// Returns the bytes of state of one stream.
    pub fn state_bytes(&self) -> usize {
        self.core.batch.chain.slot_len * size_of::<f32>()
    }

    /// Begins a stream.
    ///
    /// # Errors
    /// All slots are taken, or the device fails.
    pub fn open(&mut self, noise: Noise) -> Result<StreamId> {
        self.core.open(OpenStream::new(noise))
    }

    /// Ends a stream without the samples that are still to come.
    ///
    /// # Errors
    /// The stream is unknown.
    pub fn close(&mut self, stream: StreamId) -> Result<()> {
        self.core.streams.close(stream)
    }

    /// Takes frames of some streams, each at most once and the same number of each. Gives the samples that became final.
    /// Nothing is allocated after the first steps.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown or repeated stream, frames of a model of another shape, more frames than
    /// [`Engine::max_frames`]; otherwise the device failed.
    pub fn step(&mut self, input: &[(StreamId, Frames<'_>)]) -> Result<Samples<'_>> {
        let ticket = self.submit(input)?;
        self.collect(ticket)
    }

    /// Does the first half of [`Engine::step`]: starts it. On a GPU the next step can be submitted while this one
    /// runs, so that the device never waits for the host; [`Engine::collect`] gives the samples, in any order.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn submit(&mut self, input: &[(StreamId, Frames<'_>)]) -> Result<Ticket> {
        let n_frames = self.check(input)?;
        let n_latents = n_frames * self.core.config.frame_latents();
        self.begin_step();
        for (stream, _) in input {
            let live = self.core.streams.get(*stream)?;
            self.core.rows.push(live.row(stream.slot, OPEN));
            self.noise.push(live.noise.clone());
        }
        self.core.batch.set_input(input.iter().map(|(_, frames)| frames.as_slice()))?;
        let ticket = self.run(n_latents)?;
        let ranges = &mut self.core.batch.ring.entry(ticket)?.ranges;
        for ((stream, _), range) in input.iter().zip(ranges) {
            let live = self.core.streams.get_mut(*stream)?;
            live.position.advance(n_latents);
            live.progress.pushed += (n_latents * self.core.batch.chain.timeline.rate) as u64;
            range.start += live.count_final(range.len());
        }
        Ok(ticket)
    }

    /// Returns the samples that a submitted step made final, once they are there. The last four steps keep their
    /// samples; [`Engine::finish`], [`Engine::peek`] and [`Engine::decode`] make steps too.
    ///
    /// # Errors
    /// The step is more than four steps back, or the device failed.
    pub fn collect(&mut self, ticket: Ticket) -> Result<Samples<'_>> {
        Ok(Samples(self.core.batch.ring.collect(ticket)?))
    }

    /// Takes any number of frames of one stream, gives the samples that became final.
    ///
    /// # Errors
    /// The stream is unknown, `frames` are of a model of another shape, or the device fails.
    pub fn push<'a>(&mut self, stream: StreamId, frames: impl Into<Frames<'a>>) -> Result<Vec<f32>> {
        let mut samples = Vec::new();
        for piece in frames.into().chunks(CLIP_FRAMES) {
            samples.extend_from_slice(self.step(&[(stream, piece)])?.of(0));
        }
        Ok(samples)
    }

    /// Returns where a stream stands.
    ///
    /// # Errors
    /// The stream is unknown.
    pub fn progress(&self, stream: StreamId) -> Result<Progress> {
        Ok(self.core.streams.get(stream)?.progress)
    }

    /// Returns the number of frames that a step can take, all streams together.
    pub fn max_frames(&self) -> usize {
        self.core.max_frames()
    }

    /// Ends a stream: gives the samples that are still to come.
    ///
    /// # Errors
    /// The stream is unknown, or the device fails.
    pub fn finish(&mut self, stream: StreamId) -> Result<Vec<f32>> {
        Ok(self.finish_each(&[stream])?.pop().unwrap_or_default())
    }

    /// Ends several streams with shared steps: gives the samples that are still to come of each.
    ///
    /// # Errors
    /// A stream is unknown or given twice, or the device fails.
    pub fn finish_each(&mut self, streams: &[StreamId]) -> Result<Vec<Vec<f32>>> {
        self.core.streams.check_each(streams.iter().copied())?;
        let mut rests = Vec::with_capacity(streams.len());
        for group in streams.chunks(self.max_frames() / self.flush_frames().clamp(1, CLIP_FRAMES)) {
            let live = group.iter().map(|stream| Ok((stream.slot, self.core.streams.get(*stream)?.clone())));
            rests.extend(self.flush(live.collect::<Result<_>>()?)?);
        }
        for (stream, samples) in streams.iter().zip(&mut rests) {
            let known = self.core.streams.get(*stream)?.progress.gap().min(samples.len() as u64);
            samples.drain(..known as usize);
            self.core.streams.close(*stream)?;
        }
        Ok(rests)
    }

    /// Returns the newest samples as they would be if the stream ended here, without touching its state; only before
    /// anything was handed out, and nothing afterwards. They are not handed out again when they become final.
    ///
    /// # Errors
    /// The stream is unknown, or the device fails.
    pub fn peek(&mut self, stream: StreamId) -> Result<Vec<f32>> {
        let live = self.core.streams.get(stream)?.clone();
        if live.progress.emitted > 0 {
            return Ok(Vec::new());
        }
        self.core.batch.copy_to_spare(stream.slot)?;
        let samples = self.flush_alone(live, self.core.batch.capacity.spare())?;
        let live = self.core.streams.get_mut(stream)?;
        live.progress.emitted = samples.len() as u64;
        live.progress.early = live.progress.emitted - live.progress.exact;
        Ok(samples)
    }

    /// Decodes a whole clip.
    ///
    /// # Errors
    /// `codes` are of a model of another shape, or the device fails.
    pub fn decode(&mut self, codes: &Codes, noise: &Noise) -> Result<Vec<f32>> {
        codes.frames().check(&self.core.config)?;
        let slot = self.core.batch.capacity.spare();
        self.core.batch.clear(slot)?;
        let mut live = OpenStream::new(noise.clone());
        let mut samples = Vec::with_capacity(codes.n_frames() * self.core.config.frame_len());
        for piece in codes.frames().chunks(CLIP_FRAMES) {
            samples.extend_from_slice(self.step_alone(&mut live, slot, piece.as_slice())?);
        }
        samples.extend(self.flush_alone(live, slot)?);
        Ok(samples)
    }

    fn flush_alone(&mut self, live: OpenStream, slot: usize) -> Result<Vec<f32>> {
        Ok(self.flush(vec![(slot, live)])?.pop().unwrap_or_default())
    }

    /// Steps streams beyond their ends until every sample is final.
    fn flush(&mut self, mut streams: Vec<(usize, OpenStream)>) -> Result<Vec<Vec<f32>>> {
        let ends: Vec<i64> = streams.iter().map(|(_, live)| live.position.start).collect();
        let mut rests = vec![Vec::new(); streams.len()];
        let mut left = self.flush_frames();
        let nothing = vec![0; left.min(CLIP_FRAMES) * self.core.config.n_slots()];
        while left > 0 {
            let n_frames = left.min(CLIP_FRAMES);
            self.begin_step();
            // Nothing follows an empty stream.
            let begun = streams.iter_mut().zip(&ends).zip(&mut rests).filter(|((_, end), _)| **end > 0);
            let mut stepped = Vec::with_capacity(ends.len());
            for (((slot, live), end), rest) in begun {
                self.core.rows.push(live.row(*slot, *end));
                self.noise.push(live.noise.clone());
                live.position.advance(n_frames * self.core.config.frame_latents());
                stepped.push(rest);
            }
            if stepped.is_empty() {
                break;
            }
            let codes = &nothing[..n_frames * self.core.config.n_slots()];
            self.core.batch.set_input(stepped.iter().map(|_| codes))?;
            let ticket = self.run(n_frames * self.core.config.frame_latents())?;
            let samples = self.collect(ticket)?;
            for (row, rest) in stepped.into_iter().enumerate() {
                rest.extend_from_slice(samples.of(row));
            }
            left -= n_frames;
        }
        Ok(rests)
    }

    /// Returns the number of frames after the end of a stream until its last sample is final.
    fn flush_frames(&self) -> usize {
        self.lag().div_ceil(self.core.config.frame_len())
    }

    /// Makes one step of one stream and returns the samples that exist.
    fn step_alone(&mut self, live: &mut OpenStream, slot: usize, codes: &[i32]) -> Result<&[f32]> {
        let n_latents = codes.len() / self.core.config.n_slots() * self.core.config.frame_latents();
        self.begin_step();
        self.core.rows.push(live.row(slot, OPEN));
        self.noise.push(live.noise.clone());
        self.core.batch.set_input(std::iter::once(codes))?;
        let ticket = self.run(n_latents)?;
        live.position.advance(n_latents);
        Ok(self.collect(ticket)?.of(0))
    }

    fn begin_step(&mut self) {
        self.core.rows.clear();
        self.noise.clear();
    }

    /// Starts one step of what stands in `rows`, `noise` and the batch's codes.
    fn run(&mut self, n_latents: usize) -> Result<Ticket> {
        self.core.run(n_latents, &self.noise)
    }

    /// Returns the number of frames that each stream of a step has.
    fn check(&mut self, input: &[(StreamId, Frames<'_>)]) -> Result<usize> {
        let n_frames = input.first().map_or(0, |(_, frames)| frames.len());
        if let Some((_, frames)) = input.iter().find(|(_, frames)| frames.len() != n_frames) {
            let message = "engine: all streams of a step need the same number of frames";
            return Err(Error::invalid(format!("{message}: got {n_frames} and {}", frames.len())));
        }
        self.core.check_room(input.len(), n_frames)?;
        self.core.streams.check_each(input.iter().map(|(stream, _)| *stream))?;
        input.iter().try_for_each(|(_, frames)| frames.check(&self.core.config))?;
        Ok(n_frames)
    }
}
