//! The decoder on a device: many streams in one batch, each latent computed once.
//!
//! A stream is a slot of state. [`Engine::step`] takes one frame (or several) of each of some streams and gives the samples
//! that became final; the others are not touched. Samples do not depend, in any bit, on which streams share a step or on
//! how many frames a step has, and so [`Engine::decode`], which takes many frames at once, gives the samples of a stream.
//! They are those of the reference model within 1e-4 of full scale.
//!
//! ```
//! use melisma::snac::{Codes, Engine, Model, Noise};
//! use melisma::{Budget, Device};
//!
//! let model = Model::mini24()?;
//! let budget = Budget::unlimited();
//! let queue = Device::cpu()?.queue(&budget)?;
//! let mut engine = Engine::new(&model, &queue, &budget, 2)?;
//! let codes = Codes::from_frames(model.config(), &[0, 1, 2, 3, 4, 5, 6].repeat(4))?;
//! let whole = engine.decode(&codes, &Noise::default())?;
//!
//! let stream = engine.open(Noise::default())?;
//! let mut samples = Vec::new();
//! for frame in codes.frames().chunks(1) {
//!     samples.extend_from_slice(engine.step(&[(stream, frame)])?.of(0));
//! }
//! samples.extend(engine.finish(stream)?);
//! assert_eq!(samples, whole);
//! # Ok::<(), melisma::Error>(())
//! ```

mod batch;
mod layers;
mod need;
mod open_stream;

use std::ops::Range;
use std::sync::Arc;

use melisma_kernels::layer::step::{OPEN, Row};
use melisma_kernels::{Budget, DType, Device, Queue, Tensor};

use super::options::EngineOptions;
use super::ring::Ticket;
use crate::snac::codes::{Codes, Frames};
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::snac::noise::Noise;
use crate::snac::stream::Progress;
use crate::{Error, Result};
use batch::{Batch, CLIP_FRAMES, Capacity, Input};
use layers::Layers;
use open_stream::OpenStream;

pub use open_stream::{Samples, StreamId};

/// A decoder on a device.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    layers: Arc<Layers>,
    queue: Queue,
    batch: Batch,
    /// One for each slot but the last, which belongs to the engine.
    streams: Vec<Option<OpenStream>>,
    n_opened: u64,
    /// `[slot_len]`: zeros, and a slot on its way.
    zeros: Tensor,
    moved: Tensor,
    capacity: Capacity,
    /// The step that is being set up.
    rows: Vec<Row>,
    noise: Vec<Noise>,
}

impl Engine {
    /// An engine on the device of `queue`. `usize` converts into options with that many streams.
    ///
    /// # Errors
    /// `Unsupported` for a model without depthwise convolutions or a device without the kernels; `Memory` when `budget`
    /// refuses.
    pub fn new(model: &Model, queue: &Queue, budget: &Budget, options: impl Into<EngineOptions>) -> Result<Self> {
        let EngineOptions { max_streams, rounding } = options.into();
        let device = queue.device();
        let layers = Arc::new(Layers::new(model, &device, budget, rounding)?);
        Self::with_layers(layers, model.config(), queue, budget, max_streams)
    }

    /// Another engine that shares the packed weights and has its own streams, for example one for each thread that serves
    /// streams. `queue` must be of the same device.
    ///
    /// # Errors
    /// `Memory` when `budget` refuses; `InvalidArgument` when the queue is of another device.
    pub fn sibling(&self, queue: &Queue, budget: &Budget, max_streams: usize) -> Result<Self> {
        Self::with_layers(Arc::clone(&self.layers), &self.config, queue, budget, max_streams)
    }

    fn with_layers(
        layers: Arc<Layers>,
        config: &Config,
        queue: &Queue,
        budget: &Budget,
        max_streams: usize,
    ) -> Result<Self> {
        let device = queue.device();
        let capacity = Capacity::new(config, max_streams);
        // Scratch that grows stays allocated: graphs may have recorded its address.
        queue.reserve_scratch(need::scratch_bytes(config, capacity))?;
        let batch = Batch::new(&layers, queue, budget, capacity)?;
        let slot = || -> Result<Tensor> {
            let zeros = Tensor::from_slice(budget, &vec![0f32; layers.slot_len], &[layers.slot_len])?;
            match device {
                Device::Cpu(_) => Ok(zeros),
                Device::Cuda(_) => zeros.to::<f32>(queue, budget),
            }
        };
        let mut engine = Self {
            zeros: slot()?,
            moved: Tensor::new(&device, budget, DType::F32, &[layers.slot_len])?,
            config: config.clone(),
            queue: queue.clone(),
            batch,
            streams: vec![None; max_streams],
            n_opened: 0,
            capacity,
            layers,
            rows: Vec::new(),
            noise: Vec::new(),
        };
        engine.warm_up()?;
        Ok(engine)
    }

    /// Runs one step, so that the first real one is as fast as the others.
    fn warm_up(&mut self) -> Result<()> {
        let (slot, codes) = (self.spare(), vec![0; self.capacity.frame_codes]);
        self.step_alone(&mut OpenStream::new(0, Noise::default()), slot, OPEN, &codes)?;
        Ok(())
    }

    /// Samples by which the output lags behind the input.
    pub fn lag(&self) -> usize {
        self.layers.timeline.lag
    }

    /// Bytes of state of one stream.
    pub fn state_bytes(&self) -> usize {
        self.layers.slot_len * size_of::<f32>()
    }

    /// Begins a stream.
    ///
    /// # Errors
    /// All slots are taken, or the device fails.
    pub fn open(&mut self, noise: Noise) -> Result<StreamId> {
        let Some(slot) = self.streams.iter().position(Option::is_none) else {
            let message = format!("engine: all {} streams are taken", self.streams.len());
            return Err(Error::invalid(message).with_hint("finish or close one, or make the engine larger"));
        };
        self.clear(slot)?;
        self.n_opened += 1;
        let serial = self.n_opened;
        self.streams[slot] = Some(OpenStream::new(serial, noise));
        Ok(StreamId { slot, serial })
    }

    /// Ends a stream without the samples that are still to come.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn close(&mut self, stream: StreamId) -> Result<()> {
        self.live(stream)?;
        self.streams[stream.slot] = None;
        Ok(())
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

    /// The first half of [`Engine::step`]: starts it. On a GPU the next step can be submitted while this one runs, so
    /// that the device never waits for the host; [`Engine::collect`] gives the samples, in any order.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn submit(&mut self, input: &[(StreamId, Frames<'_>)]) -> Result<Ticket> {
        let n_frames = self.check(input)?;
        let n_latents = n_frames * self.config.frame_latents();
        self.rows.clear();
        self.noise.clear();
        for (stream, _) in input {
            if let Some(live) = &self.streams[stream.slot] {
                self.rows.push(live.row(stream.slot, OPEN));
                self.noise.push(live.noise.clone());
            }
        }
        self.batch.set_codes(input.iter().map(|(_, frames)| frames.as_slice()))?;
        let ticket = self.run(n_latents)?;
        let ranges = &mut self.batch.ring.entry(ticket)?.ranges;
        for ((stream, _), range) in input.iter().zip(ranges) {
            if let Some(live) = &mut self.streams[stream.slot] {
                live.advance(n_latents);
                live.progress.pushed += (n_latents * self.layers.timeline.rate) as u64;
                range.start += live.count_final(range.len());
            }
        }
        Ok(ticket)
    }

    /// The samples that a submitted step made final, once they are there. The last four steps keep their samples;
    /// [`Engine::finish`], [`Engine::peek`] and [`Engine::decode`] make steps too.
    ///
    /// # Errors
    /// The step is more than four steps back, or the device failed.
    pub fn collect(&mut self, ticket: Ticket) -> Result<Samples<'_>> {
        self.batch.ring.collect(ticket)
    }

    /// Takes any number of frames of one stream, gives the samples that became final.
    ///
    /// # Errors
    /// There is no such stream, `frames` are of a model of another shape, or the device fails.
    pub fn push<'a>(&mut self, stream: StreamId, frames: impl Into<Frames<'a>>) -> Result<Vec<f32>> {
        let mut samples = Vec::new();
        for piece in frames.into().chunks(CLIP_FRAMES) {
            samples.extend_from_slice(self.step(&[(stream, piece)])?.of(0));
        }
        Ok(samples)
    }

    /// Where a stream stands.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn progress(&self, stream: StreamId) -> Result<Progress> {
        Ok(self.live(stream)?.progress)
    }

    /// Frames that a step can take, all streams together.
    pub fn max_frames(&self) -> usize {
        self.capacity.n_frames
    }

    /// Ends a stream: gives the samples that are still to come.
    ///
    /// # Errors
    /// There is no such stream, or the device fails.
    pub fn finish(&mut self, stream: StreamId) -> Result<Vec<f32>> {
        let live = self.live(stream)?.clone();
        let mut samples = self.flush(live, stream.slot)?;
        let known = self.live(stream)?.progress.gap().min(samples.len() as u64);
        samples.drain(..known as usize);
        self.streams[stream.slot] = None;
        Ok(samples)
    }

    /// The newest samples as they would be if the stream ended here, without touching its state; only before anything
    /// was handed out, and nothing afterwards. They are not handed out again when they become final.
    ///
    /// # Errors
    /// There is no such stream, or the device fails.
    pub fn peek(&mut self, stream: StreamId) -> Result<Vec<f32>> {
        let live = self.live(stream)?.clone();
        if live.progress.emitted > 0 {
            return Ok(Vec::new());
        }
        let spare = self.spare();
        let (from, to) = (self.floats(stream.slot), self.floats(spare));
        self.queue.copy(self.batch.buffers().arena.view::<f32>()?.range(from)?, self.moved.view_mut()?)?;
        self.queue.copy(self.moved.view()?, self.batch.buffers().arena.view_mut::<f32>()?.range(to)?)?;
        let samples = self.flush(live, spare)?;
        if let Some(live) = &mut self.streams[stream.slot] {
            live.progress.emitted = samples.len() as u64;
            live.progress.early = live.progress.emitted - live.progress.exact;
        }
        Ok(samples)
    }

    /// A whole clip.
    ///
    /// # Errors
    /// `codes` are of a model of another shape, or the device fails.
    pub fn decode(&mut self, codes: &Codes, noise: &Noise) -> Result<Vec<f32>> {
        codes.frames().check(&self.config)?;
        let slot = self.spare();
        self.clear(slot)?;
        let mut live = OpenStream::new(0, noise.clone());
        let mut samples = Vec::with_capacity(codes.n_frames() * self.config.frame_len());
        for piece in codes.frames().chunks(CLIP_FRAMES) {
            samples.extend_from_slice(self.step_alone(&mut live, slot, OPEN, piece.as_slice())?);
        }
        samples.extend(self.flush(live, slot)?);
        Ok(samples)
    }

    /// Steps beyond the end until every sample is final.
    fn flush(&mut self, mut live: OpenStream, slot: usize) -> Result<Vec<f32>> {
        let end = live.start;
        let mut samples = Vec::new();
        let mut left = if end == 0 { 0 } else { self.lag().div_ceil(self.config.frame_len()) };
        let nothing = vec![0; left.min(CLIP_FRAMES) * self.capacity.frame_codes];
        while left > 0 {
            let now = left.min(CLIP_FRAMES);
            let codes = &nothing[..now * self.capacity.frame_codes];
            samples.extend_from_slice(self.step_alone(&mut live, slot, end, codes)?);
            left -= now;
        }
        Ok(samples)
    }

    /// One step of one stream. Returns the samples that exist.
    fn step_alone(&mut self, live: &mut OpenStream, slot: usize, end: i64, codes: &[i32]) -> Result<&[f32]> {
        let n_latents = codes.len() / self.capacity.frame_codes * self.config.frame_latents();
        self.rows.clear();
        self.rows.push(live.row(slot, end));
        self.noise.clear();
        self.noise.push(live.noise.clone());
        self.batch.set_codes(std::iter::once(codes))?;
        let ticket = self.run(n_latents)?;
        live.advance(n_latents);
        Ok(self.collect(ticket)?.of(0))
    }

    /// Starts one step of what stands in `rows`, `noise` and the batch's codes.
    fn run(&mut self, n_latents: usize) -> Result<Ticket> {
        let input = Input { rows: &self.rows, noise: &self.noise, n_latents };
        self.batch.step(&self.layers, &self.queue, &input)
    }

    /// The number of frames that each stream of a step has.
    fn check(&self, input: &[(StreamId, Frames<'_>)]) -> Result<usize> {
        let n_frames = input.first().map_or(0, |(_, frames)| frames.len());
        if let Some((_, frames)) = input.iter().find(|(_, frames)| frames.len() != n_frames) {
            let message =
                format!("engine: a step with {n_frames} frames of one stream and {} of another", frames.len());
            return Err(Error::invalid(message));
        }
        if n_frames * input.len() > self.capacity.n_frames {
            return Err(Error::invalid(format!(
                "engine: {} streams with {n_frames} frames each; a step takes {} frames in all",
                input.len(),
                self.capacity.n_frames
            )));
        }
        for (index, (stream, frames)) in input.iter().enumerate() {
            self.live(*stream)?;
            if input[..index].iter().any(|(other, _)| other == stream) {
                return Err(Error::invalid("engine: a stream is given twice in one step"));
            }
            frames.check(&self.config)?;
        }
        Ok(n_frames)
    }

    fn live(&self, stream: StreamId) -> Result<&OpenStream> {
        let live = self.streams.get(stream.slot).and_then(Option::as_ref);
        live.filter(|live| live.serial == stream.serial)
            .ok_or_else(|| Error::invalid(format!("engine: stream {} has ended", stream.serial)))
    }

    fn spare(&self) -> usize {
        self.capacity.n_slots - 1
    }

    fn floats(&self, slot: usize) -> Range<usize> {
        slot * self.layers.slot_len..(slot + 1) * self.layers.slot_len
    }

    fn clear(&mut self, slot: usize) -> Result<()> {
        let range = self.floats(slot);
        self.queue.copy(self.zeros.view()?, self.batch.buffers().arena.view_mut::<f32>()?.range(range)?)
    }
}
