//! The encoder on a device: many streams in one batch, each latent computed once.
//!
//! A stream takes samples (mono, at the model's rate) in pieces of any length. A frame's codes leave with the first whole
//! frame of samples after which no later sample can change them. They depend neither on how the samples were cut, nor on
//! the streams that share a step, nor on the number of threads.
//!
//! ```
//! use melisma::snac::{Codes, EncodeEngine, Model};
//! use melisma::{Budget, Device};
//!
//! let model = Model::mini24()?;
//! let budget = Budget::unlimited();
//! let queue = Device::cpu()?.queue(&budget)?;
//! let mut engine = EncodeEngine::new(&model, &queue, &budget, 1)?;
//! let samples: Vec<f32> = (0..10_000).map(|n| (0.05 * n as f32).sin() / 2.0).collect();
//! let whole = engine.encode(&samples)?;
//!
//! let stream = engine.open()?;
//! let mut codes = Codes::empty(model.config());
//! for piece in samples.chunks(999) {
//!     codes.append(engine.push(stream, piece)?.frames())?;
//! }
//! codes.append(engine.finish(stream)?.frames())?;
//! assert_eq!(codes, whole);
//! # Ok::<(), melisma::Error>(())
//! ```

mod open_stream;

use std::sync::Arc;

use melisma_kernels::{Budget, Queue};

use super::decode::StreamId;
use super::options::EngineOptions;
use super::ring::Ticket;
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::codes::{Codes, Frames};
use crate::snac::config::Config;
use crate::snac::encoder::Encoder;
use crate::snac::model::Model;
use crate::snac::quantizer::Quantizer;
use crate::{Error, Result};
use open_stream::OpenStream;

/// An encoder on a device.
#[derive(Debug)]
pub struct EncodeEngine {
    config: Config,
    layers: Arc<Layers>,
    streams: Vec<Option<OpenStream>>,
    n_opened: u64,
    /// The codes of the last steps.
    steps: Vec<Vec<Codes>>,
}

#[derive(Debug)]
struct Layers {
    encoder: Encoder,
    quantizer: Quantizer,
}

/// The codes that a step made final, some frames for each of its streams.
#[derive(Debug)]
pub struct Encoded<'a> {
    codes: &'a [Codes],
}

impl<'a> Encoded<'a> {
    /// Those of the step's stream `index`.
    pub fn of(&self, index: usize) -> Frames<'a> {
        self.codes[index].frames()
    }
}

impl EncodeEngine {
    /// An engine on the device of `queue`. `usize` converts into options with that many streams.
    ///
    /// # Errors
    /// `Unsupported` for a model without depthwise convolutions or a device without the kernels; `Memory` when `budget`
    /// refuses.
    pub fn new(model: &Model, _queue: &Queue, _budget: &Budget, options: impl Into<EngineOptions>) -> Result<Self> {
        if !model.config().depthwise {
            return Err(Error::unsupported("engine: a model without depthwise convolutions")
                .with_hint("none was ever published; the reference model encodes it"));
        }
        let layers = Layers { encoder: model.encoder().clone(), quantizer: model.quantizer().clone() };
        Ok(Self::with_layers(Arc::new(layers), model.config(), options.into().max_streams))
    }

    /// Another engine that shares the packed weights and has its own streams, for example one for each thread that serves
    /// streams. `queue` must be of the same device.
    ///
    /// # Errors
    /// `Memory` when `budget` refuses; `InvalidArgument` when the queue is of another device.
    pub fn sibling(&self, _queue: &Queue, _budget: &Budget, max_streams: usize) -> Result<Self> {
        Ok(Self::with_layers(Arc::clone(&self.layers), &self.config, max_streams))
    }

    fn with_layers(layers: Arc<Layers>, config: &Config, max_streams: usize) -> Self {
        let streams = (0..max_streams).map(|_| None).collect();
        Self { config: config.clone(), layers, streams, n_opened: 0, steps: Vec::new() }
    }

    /// The most memory that an engine for models of this shape takes on `device`, its queue's scratch included, whatever
    /// it encodes; nothing for a model that the engine has no kernels for.
    pub fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        super::decode::Engine::needed(config, device, max_streams)
    }

    /// Samples of a frame.
    pub fn frame_len(&self) -> usize {
        self.config.frame_len()
    }

    /// Begins a stream.
    ///
    /// # Errors
    /// All slots are taken, or the device fails.
    pub fn open(&mut self) -> Result<StreamId> {
        let Some(slot) = self.streams.iter().position(Option::is_none) else {
            let message = format!("engine: all {} streams are taken", self.streams.len());
            return Err(Error::invalid(message).with_hint("finish or close one, or make the engine larger"));
        };
        self.n_opened += 1;
        let serial = self.n_opened;
        self.streams[slot] = Some(OpenStream::new(serial, &self.layers.encoder, &self.config));
        Ok(StreamId { slot, serial })
    }

    /// Ends a stream without the codes that are still to come.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn close(&mut self, stream: StreamId) -> Result<()> {
        self.live(stream)?;
        self.streams[stream.slot] = None;
        Ok(())
    }

    /// Takes any number of samples of one stream, gives the codes that became final.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such stream or a sample is not finite (the message has its position in the
    /// stream, and the stream takes none of the samples); otherwise the device failed.
    pub fn push(&mut self, stream: StreamId, samples: &[f32]) -> Result<Codes> {
        self.live(stream)?.check(samples)?;
        let Some(live) = &mut self.streams[stream.slot] else { return Ok(Codes::empty(&self.config)) };
        live.push(&self.layers, &self.config, samples)
    }

    /// Ends a stream: pads its end with silence to whole frames and whole attention windows, gives the codes that are
    /// still to come.
    ///
    /// # Errors
    /// There is no such stream, or the device fails.
    pub fn finish(&mut self, stream: StreamId) -> Result<Codes> {
        self.live(stream)?;
        let Some(live) = self.streams[stream.slot].take() else { return Ok(Codes::empty(&self.config)) };
        live.finish(&self.layers, &self.config)
    }

    /// A whole clip.
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite; otherwise the device failed.
    pub fn encode(&mut self, samples: &[f32]) -> Result<Codes> {
        let mut live = OpenStream::new(0, &self.layers.encoder, &self.config);
        live.check(samples)?;
        let mut codes = live.push(&self.layers, &self.config, samples)?;
        codes.append(live.finish(&self.layers, &self.config)?.frames())?;
        Ok(codes)
    }

    /// Clips of any lengths in one batch: clips join and leave between steps, and none is computed beyond its own end.
    /// Gives their codes in the order of the clips.
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite (the message names the clip); otherwise the device failed.
    pub fn encode_batch(&mut self, clips: &[&[f32]]) -> Result<Vec<Codes>> {
        let encode =
            |(index, clip): (usize, &&[f32])| self.encode(clip).map_err(|error| error.at(format_args!("clip {index}")));
        clips.iter().enumerate().map(encode).collect()
    }

    /// Takes whole frames of samples of some streams, each at most once and the same number of each. Gives the codes that
    /// became final.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown or repeated stream, a stream that waits for the rest of a frame, samples that are
    /// not finite or not whole frames; otherwise the device failed.
    pub fn step(&mut self, input: &[(StreamId, &[f32])]) -> Result<Encoded<'_>> {
        let ticket = self.submit(input)?;
        self.collect(ticket)
    }

    /// The first half of [`EncodeEngine::step`]: starts it. On a GPU the next step can be submitted while this one runs;
    /// [`EncodeEngine::collect`] gives the codes, in any order.
    ///
    /// # Errors
    /// As [`EncodeEngine::step`].
    pub fn submit(&mut self, input: &[(StreamId, &[f32])]) -> Result<Ticket> {
        let len = input.first().map_or(0, |(_, samples)| samples.len());
        for (index, (stream, samples)) in input.iter().enumerate() {
            if samples.len() != len || len % self.frame_len() != 0 {
                let message = format!("engine: a step with {} samples of a stream", samples.len());
                return Err(Error::invalid(message));
            }
            if input[..index].iter().any(|(other, _)| other == stream) {
                return Err(Error::invalid("engine: a stream is given twice in one step"));
            }
            self.live(*stream)?.check(samples)?;
        }
        let codes = input.iter().map(|(stream, samples)| self.push(*stream, samples)).collect::<Result<_>>()?;
        self.steps.push(codes);
        Ok(Ticket::new(self.steps.len() as u64))
    }

    /// The codes that a submitted step made final, once they are there.
    ///
    /// # Errors
    /// The step is more than four steps back, or the device failed.
    pub fn collect(&mut self, ticket: Ticket) -> Result<Encoded<'_>> {
        Ok(Encoded { codes: &self.steps[ticket.number() as usize - 1] })
    }

    fn live(&self, stream: StreamId) -> Result<&OpenStream> {
        let live = self.streams.get(stream.slot).and_then(Option::as_ref);
        live.filter(|live| live.serial == stream.serial)
            .ok_or_else(|| Error::invalid(format!("engine: stream {} has ended", stream.serial)))
    }
}
