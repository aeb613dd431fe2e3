//! The decoder's layers, prepared for one device: weights packed once, the state's place in a slot decided once.

use melisma_kernels::layer::attention::{self, Attention};
use melisma_kernels::layer::depthwise::{self, Depthwise};
use melisma_kernels::layer::embed::{self, Embed};
use melisma_kernels::layer::head::{self, Head};
use melisma_kernels::layer::noise::{self, Noise};
use melisma_kernels::layer::norm::{self, Norm};
use melisma_kernels::layer::pointwise::{self, Mode, Pointwise};
use melisma_kernels::layer::residual::{self, Residual};
use melisma_kernels::layer::step::{Rounding, Timeline};
use melisma_kernels::layer::upsample::{self, Upsample};
use melisma_kernels::{Budget, Device};

use crate::snac::attention::LocalMha;
use crate::snac::codes::slots;
use crate::snac::config::HEAD_DIM;
use crate::snac::decoder::Block as Weights;
use crate::snac::model::Model;
use crate::snac::residual::DILATIONS;
use crate::{Error, Result};

/// A layer with state, and where its floats begin in a slot.
#[derive(Debug)]
pub(super) struct Placed<P> {
    pub(super) plan: P,
    pub(super) offset: usize,
}

/// All layers.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) embed: embed::Plan,
    pub(super) noise: noise::Plan,
    pub(super) entry: Placed<depthwise::Plan>,
    pub(super) project: pointwise::Plan,
    pub(super) attention: Option<LocalAttention>,
    pub(super) blocks: Vec<Block>,
    pub(super) head: Placed<head::Plan>,
    /// Of the samples.
    pub(super) timeline: Timeline,
    /// Floats of state in a slot.
    pub(super) slot_len: usize,
    pub(super) latent_dim: usize,
    pub(super) dim: usize,
    /// Latents and codes of a frame.
    pub(super) frame_latents: usize,
    pub(super) frame_codes: usize,
}

/// LocalMHA.
#[derive(Debug)]
pub(super) struct LocalAttention {
    pub(super) norm: norm::Plan,
    pub(super) to_qkv: pointwise::Plan,
    pub(super) attend: Placed<attention::Plan>,
    pub(super) to_out: pointwise::Plan,
}

/// DecoderBlock.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) upsample: Placed<upsample::Plan>,
    pub(super) noise: Option<pointwise::Plan>,
    pub(super) units: Vec<Placed<residual::Plan>>,
    /// Rows per latent, and channels.
    pub(super) rate: usize,
    pub(super) n_channels: usize,
}

/// What the layers that are already prepared have decided for the next.
struct Builder<'a> {
    device: &'a Device,
    budget: &'a Budget,
    rounding: Rounding,
    timeline: Timeline,
    slot_len: usize,
}

impl Builder<'_> {
    fn place<P>(&mut self, plan: P, state_len: usize) -> Placed<P> {
        let offset = self.slot_len;
        self.slot_len += state_len;
        Placed { plan, offset }
    }
}

impl Layers {
    /// # Errors
    /// `Unsupported` for a model without depthwise convolutions, or a device that lacks a kernel; `Memory` when the
    /// budget refuses the packed weights.
    pub(super) fn new(model: &Model, device: &Device, budget: &Budget, rounding: Rounding) -> Result<Self> {
        let (config, decoder) = (model.config(), model.decoder());
        let Some(project) = &decoder.project else {
            return Err(Error::unsupported("engine: a model without depthwise convolutions")
                .with_hint("none was ever published; the reference model decodes it"));
        };
        let (latent_dim, dim) = (config.latent_dim(), config.decoder_dim);
        let mut builder = Builder { device, budget, rounding, timeline: Timeline { rate: 1, lag: 3 }, slot_len: 0 };
        let entry = Depthwise {
            n_channels: latent_dim,
            n_taps: 7,
            weight: decoder.entry.weight(),
            bias: decoder.entry.bias().unwrap_or(&[]),
            timeline: builder.timeline,
        };
        let entry = entry.plan(device, budget)?;
        let len = entry.state_len();
        let entry = builder.place(entry, len);
        let project = Pointwise {
            n_in: latent_dim,
            n_out: dim,
            weight: project.weight(),
            bias: project.bias(),
            mode: Mode::Plain,
            timeline: builder.timeline,
            rounding: builder.rounding,
        };
        let project = project.plan(device, budget)?;
        let attention = match &decoder.attention {
            Some(weights) => Some(LocalAttention::new(&mut builder, weights, dim)?),
            None => None,
        };
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
        let head = head.plan(device, budget)?;
        let len = head.state_len();
        let head = builder.place(head, len);
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
            frame_codes: slots(config).len(),
        })
    }
}

fn embed_of(model: &Model, device: &Device, budget: &Budget) -> Result<embed::Plan> {
    let config = model.config();
    let order = slots(config);
    let places: Vec<Vec<usize>> = (0..config.vq_strides.len())
        .map(|level| (0..order.len()).filter(|&place| order[place].level == level).collect())
        .collect();
    let levels: Vec<embed::Level<'_>> = model
        .quantizer()
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

impl LocalAttention {
    fn new(builder: &mut Builder<'_>, weights: &LocalMha, dim: usize) -> Result<Self> {
        let (device, budget) = (builder.device, builder.budget);
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
        Ok(Self { norm, to_qkv, attend, to_out: to_out.plan(device, budget)? })
    }
}

impl Block {
    fn new(builder: &mut Builder<'_>, weights: &Weights, noise_timelines: &mut Vec<Timeline>) -> Result<Self> {
        let (device, budget) = (builder.device, builder.budget);
        let ([n_in, n_out], stride) = (weights.upsample.channels(), weights.upsample.stride());
        let Timeline { rate, lag } = builder.timeline;
        builder.timeline = Timeline { rate: rate * stride, lag: lag * stride + stride.div_ceil(2) };
        let upsample = Upsample {
            n_in,
            n_out,
            stride,
            alpha: &weights.snake.alpha,
            weight: weights.upsample.phases(),
            bias: weights.upsample.bias(),
            timeline: builder.timeline,
            rounding: builder.rounding,
        };
        let upsample = upsample.plan(device, budget)?;
        let len = upsample.state_len();
        let upsample = builder.place(upsample, len);
        let noise = match &weights.noise {
            Some(linear) => {
                noise_timelines.push(builder.timeline);
                let noise = Pointwise {
                    n_in: n_out,
                    n_out,
                    weight: linear.weight(),
                    bias: None,
                    mode: Mode::Noise,
                    timeline: builder.timeline,
                    rounding: builder.rounding,
                };
                Some(noise.plan(device, budget)?)
            }
            None => None,
        };
        let mut units = Vec::new();
        for (unit, dilation) in weights.units.iter().zip(DILATIONS) {
            builder.timeline.lag += 3 * dilation;
            let unit = Residual {
                n_channels: n_out,
                dilation,
                alpha: &unit.entry.alpha,
                wide: unit.wide.weight(),
                wide_bias: unit.wide.bias().unwrap_or(&[]),
                mix_alpha: &unit.middle.alpha,
                mix: unit.mix.weight(),
                mix_bias: unit.mix.bias().unwrap_or(&[]),
                timeline: builder.timeline,
                rounding: builder.rounding,
            };
            let unit = unit.plan(device, budget)?;
            let len = unit.state_len();
            units.push(builder.place(unit, len));
        }
        Ok(Self { upsample, noise, units, rate: builder.timeline.rate, n_channels: n_out })
    }
}
