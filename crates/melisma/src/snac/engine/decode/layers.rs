//! The decoder's layers, prepared for one device: weights packed once, the state's place in a slot decided once.

use std::ops::Range;

use melisma_kernels::layer::embed::{self, Embed};
use melisma_kernels::layer::head::Head;
use melisma_kernels::layer::need::Need;
use melisma_kernels::layer::noise::{self, Noise};
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::pointwise::{self, Mode};
use melisma_kernels::layer::step::{Activations, Arena, Rounding, Row, Step, Timeline};
use melisma_kernels::layer::strided::Strided;
use melisma_kernels::layer::upsample::Upsample;
use melisma_kernels::{Budget, Device, Queue, View};

use super::super::chain::{Builder, Chain, LocalAttention, Prepare, places, unsupported};
use super::super::core::CLIP_FRAMES;
use super::super::flow::{Buffers, Flow, Placed};
use super::super::need::{Capacity, Sizes};
use super::need::{layers, sizes};
use super::open_stream::OpenStream;
use crate::snac::config::Config;
use crate::snac::model::Model;
use crate::snac::noise::Noise as StreamNoise;
use crate::snac::reference::decoder::Block as Weights;
use crate::{Error, Result};

/// All layers.
#[derive(Debug)]
pub(super) struct Layers {
    embed: embed::Plan,
    noise: noise::Plan,
    entry: Placed<Plan>,
    project: pointwise::Plan,
    attention: Option<LocalAttention>,
    blocks: Vec<Block>,
    head: Placed<Plan>,
    /// Of the samples.
    pub(super) timeline: Timeline,
    /// Floats of state in a slot.
    pub(super) slot_len: usize,
    latent_dim: usize,
    dim: usize,
    /// Latents and codes of a frame.
    frame_latents: usize,
    frame_codes: usize,
}

/// DecoderBlock.
#[derive(Debug)]
struct Block {
    upsample: Placed<Plan>,
    noise: Option<pointwise::Plan>,
    units: Vec<Placed<Plan>>,
    /// Rows per latent, and channels.
    rate: usize,
    n_channels: usize,
}

fn dense() -> Error {
    unsupported("a model without depthwise convolutions")
}

fn embed_of(model: &Model, device: &Device, budget: &Budget) -> Result<embed::Plan> {
    let config = model.config();
    let places = places(config);
    let levels: Vec<embed::Level<'_>> = model
        .quantizer
        .levels
        .iter()
        .zip(&places)
        .map(|(level, places)| embed::Level {
            stride: level.stride,
            places,
            codebook: &level.codebook,
            weight: level.out_proj.weight(),
            bias: level.out_proj.bias().unwrap_or(&[]),
        })
        .collect();
    let embed = Embed {
        n_channels: config.latent_dim(),
        dim: config.codebook_dim,
        frame_latents: config.frame_latents(),
        levels: &levels,
    };
    embed.plan(device, budget)
}

impl Block {
    fn new(builder: &mut Builder<'_>, weights: &Weights, noise_timelines: &mut Vec<Timeline>) -> Result<Self> {
        let (device, budget) = (builder.device, builder.budget);
        let ([n_in, n_out], stride) = (weights.upsample.channels(), weights.upsample.stride());
        let Timeline { rate, lag } = builder.timeline;
        builder.timeline = Timeline { rate: rate * stride, lag: lag * stride + stride.div_ceil(2) };
        let upsample = Strided {
            n_in,
            n_out,
            stride,
            alpha: &weights.snake.alpha,
            weight: weights.upsample.phases(),
            bias: weights.upsample.bias(),
            timeline: builder.timeline,
            rounding: builder.rounding,
        };
        let upsample = builder.place_plan(Upsample(upsample).plan(device, budget)?);
        noise_timelines.extend(weights.noise.as_ref().map(|_| builder.timeline));
        let noise = weights.noise.as_ref().map(|linear| builder.product(linear, Mode::Noise)).transpose()?;
        let units = builder.units(&weights.units)?;
        Ok(Self { upsample, noise, units, rate: builder.timeline.rate, n_channels: n_out })
    }
}

impl Chain for Layers {
    type In = i32;
    type Out = f32;
    /// The noise of each row.
    type With = [StreamNoise];

    type Stream = OpenStream;
    const NEED: fn(&Config, usize, usize) -> Need = layers;
    const SIZES: fn(&Config) -> Sizes = sizes;

    fn new(model: &Model, device: &Device, budget: &Budget, rounding: Rounding) -> Result<Self> {
        let (config, decoder) = (model.config(), &model.decoder);
        let project = decoder.project.as_ref().ok_or_else(dense)?;
        let (latent_dim, dim) = (config.latent_dim(), config.decoder_dim);
        let mut builder = Builder { device, budget, rounding, timeline: Timeline { rate: 1, lag: 3 }, slot_len: 0 };
        let entry = builder.depthwise(&decoder.entry)?;
        let project = builder.product(project, Mode::Plain)?;
        let attention = builder.attention(decoder.attention.as_ref())?;
        let mut noise_timelines = Vec::new();
        let mut blocks = Vec::new();
        for weights in &decoder.blocks {
            blocks.push(Block::new(&mut builder, weights, &mut noise_timelines)?);
        }
        builder.timeline.lag += 3;
        let head = Head {
            n_channels: dim >> blocks.len(),
            alpha: &decoder.snake.alpha,
            weight: decoder.exit.weight(),
            bias: decoder.exit.bias().map_or(0.0, |bias| bias[0]),
            timeline: builder.timeline,
        };
        let head = builder.place_plan(head.plan(device, budget)?);
        Ok(Self {
            embed: embed_of(model, device, budget)?,
            noise: Noise { blocks: &noise_timelines }.plan(device, budget)?,
            entry,
            project,
            attention,
            blocks,
            head,
            timeline: builder.timeline,
            slot_len: builder.slot_len,
            latent_dim,
            dim,
            frame_latents: config.frame_latents(),
            frame_codes: config.n_slots(),
        })
    }

    fn supported(config: &Config) -> Result<()> {
        if config.depthwise { Ok(()) } else { Err(dense()) }
    }

    fn capacity(_: &Device, max_streams: usize) -> Capacity {
        Capacity::new(max_streams, CLIP_FRAMES)
    }

    fn slot_len(&self) -> usize {
        self.slot_len
    }

    fn produced(&self, row: &Row, n_latents: usize) -> Range<usize> {
        self.timeline.live(row, n_latents)
    }

    fn is_recorded(with: &[StreamNoise]) -> bool {
        !with.iter().any(|noise| matches!(noise, StreamNoise::Given(_)))
    }

    /// Computes deviates by the kernel, or copies them from the host where a stream brings its own.
    fn prepare(&self, queue: &Queue, buffers: &mut Buffers, step: Prepare<'_, [StreamNoise]>) -> Result<()> {
        let Buffers { rows, deviates, .. } = buffers;
        let Prepare { n_latents, with } = step;
        let len = rows.len() * n_latents * self.noise.per_latent();
        let Some(given) = with.filter(|with| !Self::is_recorded(with)) else {
            return self.noise.run(queue, Step { rows, n_latents }, deviates.view_mut::<f32>()?.first(len)?);
        };
        let mut drawn = Vec::with_capacity(len);
        for (index, timeline) in self.noise.blocks().iter().enumerate() {
            for (row, noise) in rows.as_slice().iter().zip(given) {
                let mut values = vec![0.0; n_latents * timeline.rate];
                let live = timeline.live(row, n_latents);
                let start = timeline.first(row) + live.start as i64;
                noise.fill(index, start as u64, &mut values[live]);
                drawn.extend(values);
            }
        }
        queue.copy(drawn.as_slice().into(), deviates.view_mut::<f32>()?.first(len)?)
    }

    fn run(&self, queue: &Queue, buffers: &mut Buffers, n_latents: usize) -> Result<()> {
        let Buffers { rows, arena, input, output, deviates, now, next, qkv, skip } = buffers;
        let (step, n_columns) = (Step { rows, n_latents }, rows.len() * n_latents);
        let n_codes = n_columns / self.frame_latents * self.frame_codes;
        let mut flow = Flow { queue, step, arena, slot_len: self.slot_len, now, next };
        let codes = input.view::<i32>()?.first(n_codes)?;
        self.embed.run(queue, step, codes, flow.first(n_columns * self.latent_dim)?)?;
        flow.stateful(&self.entry, [n_columns * self.latent_dim; 2])?;
        let sizes = [n_columns * self.latent_dim, n_columns * self.dim];
        flow.plain(sizes, |queue, step, x| self.project.run(queue, step, View::Host(&[]), x))?;
        if let Some(local) = &self.attention {
            local.run(&mut flow, [qkv, skip])?;
        }
        let mut width = n_columns * self.dim;
        let (deviates, mut drawn) = (deviates.view::<f32>()?, 0);
        for block in &self.blocks {
            let len = n_columns * block.rate * block.n_channels;
            flow.stateful(&block.upsample, [width, len])?;
            if let Some(noise) = &block.noise {
                let with = deviates.range(drawn..drawn + n_columns * block.rate)?;
                drawn += n_columns * block.rate;
                flow.plain([len, len], |queue, step, x| noise.run(queue, step, with, x))?;
            }
            for unit in &block.units {
                flow.stateful(unit, [len, len])?;
            }
            width = len;
        }
        let arena = Arena { floats: flow.arena.view_mut::<f32>()?, slot_len: self.slot_len, offset: self.head.offset };
        let y = output.view_mut::<f32>()?.first(n_columns * self.timeline.rate)?;
        self.head.plan.run(queue, step, arena, Activations { x: flow.now.view::<f32>()?.first(width)?, y })
    }
}
