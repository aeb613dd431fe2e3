//! What both directions of the codec have in common: an engine's layers, streams and steps.

use std::sync::Arc;

use melisma_kernels::layer::step::Row;
use melisma_kernels::{Budget, Queue};

use super::batch::{Batch, Input};
use super::chain::Chain;
use super::need::{Shape, Sizes};
use super::options::{EngineOptions, check_streams};
use super::ring::Ticket;
use super::slots::{Slots, StreamId};
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::{Error, Result};

/// Frames that a clip's step has: the weights are read once for all of them.
pub(super) const CLIP_FRAMES: usize = 8;

/// An engine without what only one direction needs.
#[derive(Debug)]
pub(super) struct Core<C: Chain> {
    pub(super) config: Config,
    pub(super) batch: Batch<C>,
    pub(super) streams: Slots<C::Stream>,
    /// The rows of the step that is being set up.
    pub(super) rows: Vec<Row>,
}

impl<C: Chain> Core<C> {
    pub(super) fn new(model: &Model, queue: &Queue, budget: &Budget, options: EngineOptions) -> Result<Self> {
        let layers = C::new(model, &queue.device(), budget, options.rounding)?;
        Self::with_layers(Arc::new(layers), model.config(), (queue, budget), options.max_streams)
    }

    /// Returns another engine with the same layers and its own streams.
    pub(super) fn sibling(&self, queue: &Queue, budget: &Budget, max_streams: usize) -> Result<Self> {
        Self::with_layers(Arc::clone(&self.batch.chain), &self.config, (queue, budget), max_streams)
    }

    fn with_layers(
        layers: Arc<C>,
        config: &Config,
        (queue, budget): (&Queue, &Budget),
        max_streams: usize,
    ) -> Result<Self> {
        check_streams(max_streams)?;
        let capacity = C::capacity(&queue.device(), max_streams);
        // Scratch that grows stays allocated: graphs may have recorded its address.
        queue.reserve_scratch((C::NEED)(config, capacity.n_frames, 1).device_scratch)?;
        let sizes = Sizes { slot_len: layers.slot_len(), ..(C::SIZES)(config) };
        Ok(Self {
            config: config.clone(),
            batch: Batch::new(layers, queue, budget, (capacity, sizes))?,
            streams: Slots::new(max_streams),
            rows: Vec::new(),
        })
    }

    /// Returns the most memory that an engine takes, or nothing where it has no kernels for the
    /// model.
    pub(super) fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        if C::supported(config).and_then(|()| config.check()).is_err() {
            return Needed::default();
        }
        let shape = Shape { capacity: C::capacity(device, max_streams), sizes: (C::SIZES)(config) };
        shape.needed(device, |n_frames, threads| (C::NEED)(config, n_frames, threads))
    }

    pub(super) fn open(&mut self, stream: C::Stream) -> Result<StreamId> {
        let id = self.streams.open(stream)?;
        if let Err(error) = self.batch.clear(id.slot) {
            self.streams.close(id)?;
            return Err(error);
        }
        Ok(id)
    }

    /// Returns the number of frames that a step can take, all streams together.
    pub(super) fn max_frames(&self) -> usize {
        self.batch.capacity.n_frames
    }

    /// Refuses steps of more frames than the buffers hold.
    pub(super) fn check_room(&self, n_streams: usize, n_frames: usize) -> Result<()> {
        let most = self.max_frames();
        if n_frames * n_streams <= most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "engine: {n_streams} streams with {n_frames} frames each; a step takes {most} frames in all"
        )))
    }

    /// Starts one step of what stands in `rows` and in the batch's input.
    pub(super) fn run(&mut self, n_latents: usize, with: &C::With) -> Result<Ticket> {
        self.batch.step(&Input { rows: &self.rows, n_latents, with })
    }
}
