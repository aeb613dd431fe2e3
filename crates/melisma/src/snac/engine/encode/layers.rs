//! The encoder's layers, prepared for one device.

use std::ops::Range;

use melisma_kernels::layer::downsample::Downsample;
use melisma_kernels::layer::entry::Entry;
use melisma_kernels::layer::need::Need;
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::quantize::{self, Level, Quantize};
use melisma_kernels::layer::step::{Activations, Arena, Rounding, Row, Step, Timeline};
use melisma_kernels::layer::strided::Strided;
use melisma_kernels::{Budget, Device, Queue};

use super::super::chain::{Builder, Chain, LocalAttention, Prepare, places, unsupported};
use super::super::core::CLIP_FRAMES;
use super::super::flow::{Buffers, Flow, Placed};
use super::super::need::{Capacity, Sizes};
use super::super::options::MAX_STREAMS;
use super::need::{layers, sizes};
use super::open_stream::OpenStream;
use crate::Result;
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::snac::reference::encoder::Block as Weights;

/// Frames of a single clip's step on a GPU, which a few frames do not fill.
const CUDA_CLIP_FRAMES: usize = 64;

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
        let layer = Strided {
            n_in: shape.n_in,
            n_out: shape.n_out,
            stride: shape.stride,
            alpha: &weights.snake.alpha,
            weight: weights.downsample.weight(),
            bias: weights.downsample.bias().unwrap_or(&[]),
            timeline: builder.timeline,
            rounding: builder.rounding,
        };
        let downsample = builder.place_plan(Downsample { layer, from }.plan(builder.device, builder.budget)?);
        Ok(Self { units, downsample, widths: [from.rate * shape.n_in, builder.timeline.rate * shape.n_out] })
    }
}

impl Chain for Layers {
    type In = f32;
    type Out = i32;
    type With = ();

    type Stream = OpenStream;
    const NEED: fn(&Config, usize, usize) -> Need = layers;
    const SIZES: fn(&Config) -> Sizes = sizes;

    fn new(model: &Model, device: &Device, budget: &Budget, rounding: Rounding) -> Result<Self> {
        let (config, encoder) = (model.config(), model.encoder()?);
        Self::supported(config)?;
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
        let attention = builder.attention(encoder.attention.as_ref())?;
        builder.timeline.lag += 3;
        let exit = builder.depthwise(&encoder.exit)?;
        let lag = builder.timeline.lag;
        let quantize = quantize_of(model, lag, device, budget)?;
        let len = quantize.state_len();
        let quantize = builder.place(quantize, len);
        let timeline = Timeline { rate: 1, lag: lag.next_multiple_of(config.frame_latents()) };
        let slot_len = builder.slot_len;
        Ok(Self { config: config.clone(), entry, blocks, attention, exit, quantize, timeline, slot_len })
    }

    fn supported(config: &Config) -> Result<()> {
        match config {
            Config { depthwise: false, .. } => Err(unsupported("a model without depthwise convolutions")),
            // Such a convolution has one output more than inputs, at a stream's end.
            config if config.encoder_rates.contains(&1) => Err(unsupported("an encoder with a rate of 1")),
            _ => Ok(()),
        }
    }

    /// Returns the sizes of a step. Clips in a batch have several frames each in a GPU's step; on the CPU one clip at a time fills a step.
    fn capacity(device: &Device, max_streams: usize) -> Capacity {
        let n_frames = match device {
            Device::Cpu(_) => CLIP_FRAMES,
            Device::Cuda(_) => CUDA_CLIP_FRAMES.max(CLIP_FRAMES * max_streams.min(MAX_STREAMS)),
        };
        Capacity::new(max_streams, n_frames)
    }

    fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Returns which codes exist: those of whole frames.
    fn produced(&self, row: &Row, n_latents: usize) -> Range<usize> {
        let live = self.timeline.live(row, n_latents);
        let codes = |latents: usize| latents / self.config.frame_latents() * self.config.n_slots();
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
            local.run(&mut flow, [qkv, skip])?;
        }
        let len = n_columns * self.config.latent_dim();
        flow.stateful(&self.exit, [len, len])?;
        let n_codes = n_columns / self.config.frame_latents() * self.config.n_slots();
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
