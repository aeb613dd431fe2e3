//! A chain of layers, prepared for one device: weights packed once, the state's place in a slot decided once.

use std::fmt::Debug;

use melisma_kernels::layer::attention::{self, Attention, Pass};
use melisma_kernels::layer::depthwise::Depthwise;
use melisma_kernels::layer::need::{self, Need, Work};
use melisma_kernels::layer::norm::{self, Norm};
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::pointwise::{self, Mode, Pointwise};
use melisma_kernels::layer::residual::Residual;
use melisma_kernels::layer::step::{Activations, Arena, Rounding, Row, Timeline};
use melisma_kernels::{Budget, Device, Element, Queue, Tensor, View};

use super::flow::{Buffers, Flow, Placed};
use super::need::{Capacity, Sizes};
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

    /// Prepares the layers of a model on a device.
    ///
    /// # Errors
    /// `Unsupported` for a model or a device without kernels; `Memory` when the budget refuses the packed weights.
    fn new(model: &Model, device: &Device, budget: &Budget, rounding: Rounding) -> Result<Self>
    where
        Self: Sized;

    /// Checks that there are kernels for a model.
    ///
    /// # Errors
    /// `Unsupported` for a model that the engine has no kernels for.
    fn supported(config: &Config) -> Result<()>;

    fn capacity(device: &Device, max_streams: usize) -> Capacity;

    /// The memory of all layers for steps of a number of frames, of all streams together, on a number of threads.
    const NEED: fn(&Config, usize, usize) -> Need;

    /// What lies between the layers; the state is the layers' own.
    const SIZES: fn(&Config) -> Sizes;

    /// Returns the number of floats of state in a slot.
    fn slot_len(&self) -> usize;

    /// Returns which of the outputs of `row`'s step exist.
    fn produced(&self, row: &Row, n_latents: usize) -> std::ops::Range<usize>;

    /// Returns whether a recorded step can be taken.
    fn is_recorded(with: &Self::With) -> bool;

    /// Prepares what the layers need beside the input; without `with`, as a recorded step makes it.
    fn prepare(&self, queue: &Queue, buffers: &mut Buffers, step: Prepare<'_, Self::With>) -> Result<()>;

    /// Runs the layers from the buffers' input to their output.
    fn run(&self, queue: &Queue, buffers: &mut Buffers, n_latents: usize) -> Result<()>;
}

/// The arguments of [`Chain::prepare`].
pub(super) struct Prepare<'a, W: ?Sized> {
    pub(super) n_latents: usize,
    pub(super) with: Option<&'a W>,
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

    /// Returns the place of a layer that remembers rows of its input.
    pub(super) fn place_plan(&mut self, plan: Plan) -> Placed<Plan> {
        let len = plan.state_len();
        self.place(plan, len)
    }

    /// Returns a convolution of one tap.
    pub(super) fn product(&self, conv: &Conv1d, mode: Mode) -> Result<pointwise::Plan> {
        let Shape { n_in, n_out, .. } = conv.shape();
        let (timeline, rounding) = (self.timeline, self.rounding);
        let layer = Pointwise { n_in, n_out, weight: conv.weight(), bias: conv.bias(), mode, timeline, rounding };
        layer.plan(self.device, self.budget)
    }

    /// Returns a convolution of each channel alone.
    pub(super) fn depthwise(&mut self, conv: &Conv1d) -> Result<Placed<Plan>> {
        let Shape { n_in: n_channels, kernel: n_taps, .. } = conv.shape();
        let (weight, bias) = (conv.weight(), conv.bias().unwrap_or(&[]));
        let layer = Depthwise { n_channels, n_taps, weight, bias, timeline: self.timeline };
        Ok(self.place_plan(layer.plan(self.device, self.budget)?))
    }

    /// Prepares attention, in models that have it.
    pub(super) fn attention(&mut self, weights: Option<&LocalMha>) -> Result<Option<LocalAttention>> {
        weights.map(|weights| LocalAttention::new(self, weights)).transpose()
    }

    /// Returns the three residual units of a block.
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
    norm: norm::Plan,
    to_qkv: pointwise::Plan,
    attend: Placed<attention::Plan>,
    to_out: pointwise::Plan,
    n_channels: usize,
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

    /// Runs the norm, projections, attention and skip.
    pub(super) fn run(&self, flow: &mut Flow<'_>, [qkv, skip]: [&mut Tensor; 2]) -> Result<()> {
        let len = flow.n_columns() * self.n_channels;
        flow.plain([len, len], |queue, step, x| self.norm.run(queue, step, x))?;
        // The norm is in `now`, its input still in `next`.
        let none = View::Host(&[]);
        let activations =
            Activations { x: flow.now.view::<f32>()?.first(len)?, y: qkv.view_mut::<f32>()?.first(3 * len)? };
        self.to_qkv.run(flow.queue, flow.step, none, activations)?;
        let pass = Pass {
            qkv: qkv.view::<f32>()?.first(3 * len)?,
            x: flow.next.view::<f32>()?.first(len)?,
            mixed: flow.now.view_mut::<f32>()?.first(len)?,
            skip: skip.view_mut::<f32>()?.first(len)?,
        };
        let floats = flow.arena.view_mut::<f32>()?;
        let arena = Arena { floats, slot_len: flow.slot_len, offset: self.attend.offset };
        self.attend.plan.run(flow.queue, flow.step, arena, pass)?;
        let with = skip.view::<f32>()?.first(len)?;
        flow.plain([len, len], |queue, step, x| self.to_out.run(queue, step, with, x))
    }
}

/// Returns the memory of [`LocalAttention`] over `work` latents of `dim` channels.
pub(super) fn attention_need(dim: usize, window: usize, work: Work) -> [Need; 4] {
    [
        need::norm(dim),
        need::pointwise([dim, 3 * dim], work),
        need::attention([dim, HEAD_DIM], window, work.n_rows),
        need::pointwise([dim, dim], work),
    ]
}

/// Returns the size of each level: codes of a frame, and of the codebook.
pub(super) fn levels(config: &Config) -> Vec<[usize; 2]> {
    config.frame_codes().map(|n_codes| [n_codes, config.codebook_size]).collect()
}

pub(super) fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("engine: {what}")).with_hint("none was ever published; use the reference model")
}

/// Returns the places of each level's codes in a frame.
pub(super) fn places(config: &Config) -> Vec<Vec<usize>> {
    let order = slots(config);
    let of_level = |level| (0..order.len()).filter(|&place| order[place].level == level).collect();
    (0..config.vq_strides.len()).map(of_level).collect()
}
