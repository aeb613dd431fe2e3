//! A chain of layers, prepared for one device: weights packed once, the state's place in a slot decided once.

use std::fmt::Debug;

use melisma_kernels::layer::attention::{self, Attention};
use melisma_kernels::layer::norm::{self, Norm};
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::pointwise::{self, Mode, Pointwise};
use melisma_kernels::layer::residual::Residual;
use melisma_kernels::layer::step::{Rounding, Row, Timeline};
use melisma_kernels::{Budget, Device, Element, Queue};

use super::buffers::Buffers;
use super::size::Sizes;
use crate::Result;
use crate::snac::codes::slots;
use crate::snac::config::{Config, HEAD_DIM};
use crate::snac::reference::attention::LocalMha;
use crate::snac::reference::residual::{DILATIONS, ResidualUnit};

/// All layers of a direction: the decoder's, or the encoder's.
pub(super) trait Chain: Debug + Send + Sync + 'static {
    /// What goes in and comes out: codes and samples, or samples and codes.
    type In: Element;
    type Out: Element;
    /// What a step takes beside its input.
    type With: ?Sized;

    fn sizes(&self) -> Sizes;

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
    pub(super) fn new(builder: &mut Builder<'_>, weights: &LocalMha) -> Result<Self> {
        let (device, budget) = (builder.device, builder.budget);
        let dim = weights.norm_weight.len();
        let norm = Norm { n_channels: dim, weight: &weights.norm_weight, bias: &weights.norm_bias, rate: 1 };
        let to_qkv = Pointwise {
            n_in: dim,
            n_out: 3 * dim,
            weight: weights.to_qkv.weight(),
            bias: None,
            mode: Mode::Plain,
            timeline: builder.timeline,
            rounding: builder.rounding,
        };
        let (norm, to_qkv) = (norm.plan(device, budget)?, to_qkv.plan(device, budget)?);
        builder.timeline.lag += weights.window - 1;
        let timeline = builder.timeline;
        let attend = Attention { n_channels: dim, head_dim: HEAD_DIM, window: weights.window, timeline };
        let attend = attend.plan(device, budget)?;
        let len = attend.state_len();
        let attend = builder.place(attend, len);
        let to_out = Pointwise {
            n_in: dim,
            n_out: dim,
            weight: weights.to_out.weight(),
            bias: None,
            mode: Mode::Add,
            timeline,
            rounding: builder.rounding,
        };
        Ok(Self { norm, to_qkv, attend, to_out: to_out.plan(device, budget)?, n_channels: dim })
    }
}

/// The places of each level's codes in a frame.
pub(super) fn places(config: &Config) -> Vec<Vec<usize>> {
    let order = slots(config);
    let of_level = |level| (0..order.len()).filter(|&place| order[place].level == level).collect();
    (0..config.vq_strides.len()).map(of_level).collect()
}
