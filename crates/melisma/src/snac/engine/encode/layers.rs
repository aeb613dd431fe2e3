//! The encoder's layers, prepared for one device.

use std::ops::Range;

use melisma_kernels::layer::depthwise::Depthwise;
use melisma_kernels::layer::downsample::Downsample;
use melisma_kernels::layer::entry::Entry;
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::quantize::{self, Level, Quantize};
use melisma_kernels::layer::step::{Activations, Arena, Rounding, Row, Step, Timeline};
use melisma_kernels::{Budget, Device, Queue};

use super::super::buffers::Buffers;
use super::super::chain::{Builder, Chain, LocalAttention, Placed, Prepare, places};
use super::super::flow::Flow;
use super::super::size::Sizes;
use super::need::sizes;
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::snac::reference::encoder::Block as Weights;
use crate::{Error, Result};

/// All layers.
#[derive(Debug)]
pub(super) struct Layers {
    config: Config,
    entry: Placed<Plan>,
    blocks: Vec<Block>,
    attention: Option<LocalAttention>,
    exit: Placed<Plan>,
    quantize: Placed<quantize::Plan>,
    /// Of the latents whose codes a step gives: its lag is whole frames.
    pub(super) timeline: Timeline,
    slot_len: usize,
}

/// EncoderBlock.
#[derive(Debug)]
struct Block {
    units: Vec<Placed<Plan>>,
    downsample: Placed<Plan>,
    /// Floats per latent of the units and of the block's output.
    widths: [usize; 2],
}

impl Layers {
    /// # Errors
    /// `Unsupported` for a model that the engine has no kernels for, or a device that lacks one; `Memory` when the
    /// budget refuses the packed weights.
    pub(super) fn new(model: &Model, device: &Device, budget: &Budget, rounding: Rounding) -> Result<Self> {
        let (config, encoder) = (model.config(), &model.encoder);
        supported(config)?;
        let timeline = Timeline { rate: config.hop_len(), lag: 3 };
        let mut builder = Builder { device, budget, rounding, timeline, slot_len: 0 };
        let entry = Entry {
            n_channels: config.encoder_dim,
            weight: encoder.entry.weight(),
            bias: encoder.entry.bias().unwrap_or(&[]),
            timeline,
        };
        let entry = builder.place_plan(entry.plan(device, budget)?);
        let mut blocks = Vec::new();
        for weights in &encoder.blocks {
            blocks.push(Block::new(&mut builder, weights)?);
        }
        let attention = match &encoder.attention {
            Some(weights) => Some(LocalAttention::new(&mut builder, weights)?),
            None => None,
        };
        builder.timeline.lag += 3;
        let exit = Depthwise {
            n_channels: config.latent_dim(),
            n_taps: 7,
            weight: encoder.exit.weight(),
            bias: encoder.exit.bias().unwrap_or(&[]),
            timeline: builder.timeline,
        };
        let exit = builder.place_plan(exit.plan(device, budget)?);
        let lag = builder.timeline.lag;
        let quantize = quantize_of(model, lag, device, budget)?;
        let len = quantize.state_len();
        let quantize = builder.place(quantize, len);
        let timeline = Timeline { rate: 1, lag: lag.next_multiple_of(config.frame_latents()) };
        let slot_len = builder.slot_len;
        Ok(Self { config: config.clone(), entry, blocks, attention, exit, quantize, timeline, slot_len })
    }
}

/// # Errors
/// `Unsupported` for a model that the engine has no kernels for.
pub(super) fn supported(config: &Config) -> Result<()> {
    let what = match config {
        Config { depthwise: false, .. } => "a model without depthwise convolutions",
        // Such a convolution has one output more than inputs, at a stream's end.
        config if config.encoder_rates.contains(&1) => "an encoder with a rate of 1",
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("engine: {what}"))
        .with_hint("none was ever published; the reference model encodes it"))
}

fn quantize_of(model: &Model, lag: usize, device: &Device, budget: &Budget) -> Result<quantize::Plan> {
    let config = model.config();
    let places = places(config);
    let levels: Vec<Level<'_>> = model
        .quantizer
        .levels
        .iter()
        .zip(&places)
        .map(|(level, places)| Level {
            stride: level.stride,
            places,
            codebook: &level.codebook,
            in_weight: level.in_proj.weight(),
            in_bias: level.in_proj.bias().unwrap_or(&[]),
            out_weight: level.out_proj.weight(),
            out_bias: level.out_proj.bias().unwrap_or(&[]),
        })
        .collect();
    let quantize = Quantize {
        n_channels: config.latent_dim(),
        dim: config.codebook_dim,
        frame_latents: config.frame_latents(),
        levels: &levels,
        lag,
    };
    quantize.plan(device, budget)
}

impl Block {
    fn new(builder: &mut Builder<'_>, weights: &Weights) -> Result<Self> {
        let units = builder.units(&weights.units)?;
        let (shape, from) = (weights.downsample.shape(), builder.timeline);
        builder.timeline = from.downsampled(shape.stride);
        let downsample = Downsample {
            n_in: shape.n_in,
            n_out: shape.n_out,
            stride: shape.stride,
            alpha: &weights.snake.alpha,
            weight: weights.downsample.weight(),
            bias: weights.downsample.bias().unwrap_or(&[]),
            from,
            timeline: builder.timeline,
            rounding: builder.rounding,
        };
        let downsample = builder.place_plan(downsample.plan(builder.device, builder.budget)?);
        Ok(Self { units, downsample, widths: [from.rate * shape.n_in, builder.timeline.rate * shape.n_out] })
    }
}

impl Chain for Layers {
    type In = f32;
    type Out = i32;
    type With = ();

    fn sizes(&self) -> Sizes {
        Sizes { slot_len: self.slot_len, ..sizes(&self.config) }
    }

    /// Whole frames of codes.
    fn produced(&self, row: &Row, n_latents: usize) -> Range<usize> {
        let live = self.timeline.live(row, n_latents);
        let frame_codes: usize = self.config.frame_codes().sum();
        let codes = |latents: usize| latents / self.config.frame_latents() * frame_codes;
        codes(live.start)..codes(live.end)
    }

    fn is_recorded((): &()) -> bool {
        true
    }

    fn prepare(&self, _: &Queue, _: &mut Buffers, _: Prepare<'_, ()>) -> Result<()> {
        Ok(())
    }

    fn run(&self, queue: &Queue, buffers: &mut Buffers, n_latents: usize) -> Result<()> {
        let Buffers { rows, arena, input, output, now, next, qkv, skip, .. } = buffers;
        let (step, n_columns) = (Step { rows, n_latents }, rows.len() * n_latents);
        let mut flow = Flow { queue, step, arena, slot_len: self.slot_len, now, next };
        let n_samples = n_columns * self.config.hop_len();
        let floats = flow.arena.view_mut::<f32>()?;
        let arena = Arena { floats, slot_len: self.slot_len, offset: self.entry.offset };
        let y = flow.now.view_mut::<f32>()?.first(n_samples * self.config.encoder_dim)?;
        self.entry.plan.run(queue, step, arena, Activations { x: input.view::<f32>()?.first(n_samples)?, y })?;
        for block in &self.blocks {
            let [len, len_out] = block.widths.map(|width| n_columns * width);
            for unit in &block.units {
                flow.stateful(unit, [len, len])?;
            }
            flow.stateful(&block.downsample, [len, len_out])?;
        }
        if let Some(local) = &self.attention {
            flow.attend(local, [qkv, skip])?;
        }
        let len = n_columns * self.config.latent_dim();
        flow.stateful(&self.exit, [len, len])?;
        let n_codes = n_columns / self.config.frame_latents() * self.config.frame_codes().sum::<usize>();
        let pass = quantize::Pass {
            x: flow.now.view::<f32>()?.first(len)?,
            codes: output.view_mut::<i32>()?.first(n_codes)?,
            margins: None,
        };
        let floats = flow.arena.view_mut::<f32>()?;
        let arena = Arena { floats, slot_len: self.slot_len, offset: self.quantize.offset };
        self.quantize.plan.run(queue, step, arena, pass)
    }
}
