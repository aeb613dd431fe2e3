//! The codec of a voice model that has its own, and the engine that decodes its frames.
//!
//! Streams of all codecs share the slots of the server's main engine, because they share its device: a stream of an
//! own codec holds one of them too.

use std::path::Path;
use std::sync::Arc;

use melisma::snac::{EngineOptions, Model};
use melisma::speak::{BUILTIN, Speaker};
use melisma::{Context, Result};

use crate::batcher::{Batcher, Capacity, CapacityCache, Setup, Sizing};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::stopper::Stopper;

/// How the frames of voice models are decoded.
#[derive(Debug, Clone)]
pub struct Decoding {
    /// Streams of audio that the server has at a time; more texts are spoken only if the number is given.
    pub n_streams: usize,
    /// Size and precision of the engine of an own codec.
    pub options: EngineOptions,
    /// Frames of its steps.
    pub step_frames: usize,
    /// Where it reports times.
    pub metrics: Arc<Metrics>,
    /// Ends measurements when the server is asked to stop.
    pub stopper: Stopper,
    /// Beside which the capacities of voice models are cached.
    pub cache: Option<CapacityCache>,
}

/// A codec of a voice model, and its engine.
#[derive(Debug)]
pub struct OwnCodec {
    /// The codec.
    pub model: Arc<Model>,
    /// Its engine.
    pub batcher: Batcher,
}

impl Decoding {
    /// Decodes own codecs as `batcher` does, whose engine was opened with `options`.
    pub fn like(batcher: &Batcher, options: EngineOptions, metrics: &Arc<Metrics>, stopper: &Stopper) -> Self {
        let Capacity { step_frames, .. } = batcher.capacity().capacity;
        let (n_streams, cache) = (batcher.slots().limit(), batcher.cache().cloned());
        let (metrics, stopper) = (Arc::clone(metrics), stopper.clone());
        Self { n_streams, options, step_frames, metrics, stopper, cache }
    }

    /// Decodes up to `n_streams` streams, a frame of each at a time, and caches nothing.
    pub fn new(n_streams: usize) -> Self {
        let (options, metrics, stopper) = (EngineOptions::new(n_streams), Arc::default(), Stopper::default());
        Self { n_streams, options, step_frames: n_streams, metrics, stopper, cache: None }
    }
}

impl OwnCodec {
    /// Opens the codec of the voice model in `folder`, if it has its own: the built-in voice does.
    ///
    /// # Errors
    /// This build has none, memory is too small, or the device fails.
    pub(super) fn open(context: &Context, folder: &Path, with: (&Decoding, &Log)) -> Result<Option<Self>> {
        if folder != Path::new(BUILTIN) {
            return Ok(None);
        }
        let (Decoding { options, step_frames, metrics, stopper, .. }, log) = with;
        let model = Arc::new(Model::open_in(context, Speaker::codec_of(folder))?);
        let setup = Setup {
            queue: &context.device().queue(context.budget())?,
            budget: context.budget(),
            options: *options,
            sizing: Sizing::Given(Capacity { streams: options.max_streams, step_frames: *step_frames }),
            metrics: Arc::clone(metrics),
            log: log.clone(),
            stopper: stopper.clone(),
        };
        let batcher = Batcher::start(&model, setup)?;
        Ok(Some(Self { model, batcher }))
    }
}
