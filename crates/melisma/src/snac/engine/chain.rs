//! A chain of layers, prepared for one device: weights packed once, the state's place in a slot decided once.

use std::fmt::Debug;

use melisma_kernels::layer::attention::{self, Attention};
use melisma_kernels::layer::depthwise::Depthwise;
use melisma_kernels::layer::need::{self, Need, Work};
use melisma_kernels::layer::norm::{self, Norm};
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::pointwise::{self, Mode, Pointwise};
use melisma_kernels::layer::residual::Residual;
use melisma_kernels::layer::step::{Rounding, Row, Timeline};
use melisma_kernels::{Budget, Device, Element, Queue};

use super::batch::Capacity;
use super::flow::Buffers;
use crate::snac::codes::slots;
use crate::snac::config::{Config, HEAD_DIM};
use crate::snac::model::Model;
use crate::snac::reference::attention::LocalMha;
use crate::snac::reference::conv::{Conv1d, Shape};
use crate::snac::reference::residual::{DILATIONS, ResidualUnit};
use crate::{Error, Result};

/// All layers of a direction: the decoder's, or the encoder's.
pub(super) trait Chain: Debug + Send + Sync + 'static {
    /// What goes in and comes out: codes and samples, or samples and codes.
    type In: Element;
    type Out: Element;
    /// What a step takes beside its input.
    type With: ?Sized;
    /// What an engine knows of an open stream, apart from its slot of the arena.
    type Stream: Debug;

    /// # Errors
    /// `Unsupported` for a model or a device without kernels; `Memory` when the budget refuses the packed weights.
    fn new(model: &Model, device: &Device, budget: &Budget, rounding: Rounding) -> Result<Self>
    where
        Self: Sized;

    /// # Errors
    /// `Unsupported` for a model that the engine has no kernels for.
    fn supported(config: &Config) -> Result<()>;

    fn capacity(device: &Device, max_streams: usize) -> Capacity;

    /// The memory of all layers for steps of a number of frames, of all streams together, on a number of threads.
    const NEED: fn(&Config, usize, usize) -> Need;

    /// What lies between the layers; the state is the layers' own.
    const SIZES: fn(&Config) -> Sizes;

    /// Floats of state in a slot.
    fn slot_len(&self) -> usize;

    /// Which of the outputs of `row`'s step exist.
    fn produced(&self, row: &Row, n_latents: usize) -> std::ops::Range<usize>;

    /// Whether a recorded step can be taken.
    fn is_recorded(with: &Self::With) -> bool;

    /// What the layers need beside the input; without `with`, as a recorded step makes it.
    fn prepare(&self, queue: &Queue, buffers: &mut Buffers, step: Prepare<'_, Self::With>) -> Result<()>;

    /// From the buffers' input to their output.
    fn run(&self, queue: &Queue, buffers: &mut Buffers, n_latents: usize) -> Result<()>;
}

/// The arguments of [`Chain::prepare`].
pub(super) struct Prepare<'a, W: ?Sized> {
    pub(super) n_latents: usize,
    pub(super) with: Option<&'a W>,
}

/// How much memory a chain needs between its layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Floats of state in a slot.
    pub(super) slot_len: usize,
    /// Latents, inputs and outputs of a frame.
    pub(super) frame_latents: usize,
    pub(super) frame_in: usize,
    pub(super) frame_out: usize,
    /// Floats per latent of the widest activations, and of deviates.
    pub(super) widest: usize,
    pub(super) deviates: usize,
    /// Channels of attention, or 0.
    pub(super) attention: usize,
}

/// A layer with state, and where its floats begin in a slot.
#[derive(Debug)]
pub(super) struct Placed<P> {
    pub(super) plan: P,
    pub(super) offset: usize,
}

/// What the layers that are already prepared have decided for the next.
pub(super) struct Builder<'a> {
    pub(super) device: &'a Device,
    pub(super) budget: &'a Budget,
    pub(super) rounding: Rounding,
    pub(super) timeline: Timeline,
    pub(super) slot_len: usize,
}

impl Builder<'_> {
    /// Gives a layer the next `state_len` floats of a slot.
    pub(super) fn place<P>(&mut self, plan: P, state_len: usize) -> Placed<P> {
        let offset = self.slot_len;
        self.slot_len += state_len;
        Placed { plan, offset }
    }

    /// The place of a layer that remembers rows of its input.
    pub(super) fn place_plan(&mut self, plan: Plan) -> Placed<Plan> {
        let len = plan.state_len();
        self.place(plan, len)
    }

    /// A convolution of one tap.
    pub(super) fn product(&self, conv: &Conv1d, mode: Mode) -> Result<pointwise::Plan> {
        let Shape { n_in, n_out, .. } = conv.shape();
        let (timeline, rounding) = (self.timeline, self.rounding);
        let layer = Pointwise { n_in, n_out, weight: conv.weight(), bias: conv.bias(), mode, timeline, rounding };
        layer.plan(self.device, self.budget)
    }

    /// A convolution of each channel alone.
    pub(super) fn depthwise(&mut self, conv: &Conv1d) -> Result<Placed<Plan>> {
        let Shape { n_in: n_channels, kernel: n_taps, .. } = conv.shape();
        let (weight, bias) = (conv.weight(), conv.bias().unwrap_or(&[]));
        let layer = Depthwise { n_channels, n_taps, weight, bias, timeline: self.timeline };
        Ok(self.place_plan(layer.plan(self.device, self.budget)?))
    }

    /// Attention, in models that have it.
    pub(super) fn attention(&mut self, weights: Option<&LocalMha>) -> Result<Option<LocalAttention>> {
        weights.map(|weights| LocalAttention::new(self, weights)).transpose()
    }

    /// The three residual units of a block.
    pub(super) fn units(&mut self, units: &[ResidualUnit]) -> Result<Vec<Placed<Plan>>> {
        let mut placed = Vec::new();
        for (unit, dilation) in units.iter().zip(DILATIONS) {
            self.timeline.lag += 3 * dilation;
            let unit = Residual {
                n_channels: unit.entry.alpha.len(),
                dilation,
                alpha: &unit.entry.alpha,
                wide: unit.wide.weight(),
                wide_bias: unit.wide.bias().unwrap_or(&[]),
                mix_alpha: &unit.middle.alpha,
                mix: unit.mix.weight(),
                mix_bias: unit.mix.bias().unwrap_or(&[]),
                timeline: self.timeline,
                rounding: self.rounding,
            };
            let unit = unit.plan(self.device, self.budget)?;
            placed.push(self.place_plan(unit));
        }
        Ok(placed)
    }
}

/// LocalMHA.
#[derive(Debug)]
pub(super) struct LocalAttention {
    pub(super) norm: norm::Plan,
    pub(super) to_qkv: pointwise::Plan,
    pub(super) attend: Placed<attention::Plan>,
    pub(super) to_out: pointwise::Plan,
    pub(super) n_channels: usize,
}

impl LocalAttention {
    fn new(builder: &mut Builder<'_>, weights: &LocalMha) -> Result<Self> {
        let (device, budget) = (builder.device, builder.budget);
        let dim = weights.norm_weight.len();
        let norm = Norm { n_channels: dim, weight: &weights.norm_weight, bias: &weights.norm_bias, rate: 1 };
        let (norm, to_qkv) = (norm.plan(device, budget)?, builder.product(&weights.to_qkv, Mode::Plain)?);
        builder.timeline.lag += weights.window - 1;
        let timeline = builder.timeline;
        let attend = Attention { n_channels: dim, head_dim: HEAD_DIM, window: weights.window, timeline };
        let attend = attend.plan(device, budget)?;
        let len = attend.state_len();
        let attend = builder.place(attend, len);
        Ok(Self { norm, to_qkv, attend, to_out: builder.product(&weights.to_out, Mode::Add)?, n_channels: dim })
    }
}

/// The memory of [`LocalAttention`] over `work` latents of `dim` channels.
pub(super) fn attention_need(dim: usize, window: usize, work: Work) -> [Need; 4] {
    [
        need::norm(dim),
        need::pointwise([dim, 3 * dim], work),
        need::attention([dim, HEAD_DIM], window, work.n_rows),
        need::pointwise([dim, dim], work),
    ]
}

/// The size of each level: codes of a frame, and of the codebook.
pub(super) fn levels(config: &Config) -> Vec<[usize; 2]> {
    config.frame_codes().map(|n_codes| [n_codes, config.codebook_size]).collect()
}

pub(super) fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("engine: {what}")).with_hint("none was ever published; use the reference model")
}

/// The places of each level's codes in a frame.
pub(super) fn places(config: &Config) -> Vec<Vec<usize>> {
    let order = slots(config);
    let of_level = |level| (0..order.len()).filter(|&place| order[place].level == level).collect();
    (0..config.vq_strides.len()).map(of_level).collect()
}
