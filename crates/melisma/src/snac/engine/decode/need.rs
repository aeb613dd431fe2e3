//! Memory that an engine takes, by the configuration alone.

use melisma_kernels::layer::need::{
    Need, Work, attention, depthwise, embed, head, noise, norm, pointwise, residual, upsample,
};

use super::super::need::Shape;
use super::super::size::Capacity;
use super::super::size::Sizes;
use super::{CLIP_FRAMES, Engine};
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::config::{Config, HEAD_DIM};
use crate::snac::reference::residual::DILATIONS;

/// Channels and time steps per latent of a layer's output.
struct Stage {
    n_channels: usize,
    rate: usize,
}

impl Engine {
    /// The most memory that an engine for models of this shape takes on `device`, its queue's scratch included, whatever
    /// it decodes; nothing for a model that the engine has no kernels for.
    pub fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        if !config.depthwise || config.check().is_err() {
            return Needed::default();
        }
        let shape = Shape { capacity: Capacity::new(max_streams, CLIP_FRAMES), sizes: sizes(config) };
        shape.needed(device, |n_frames, threads| layers(config, n_frames, threads))
    }
}

/// Scratch on a GPU for the largest step.
pub(super) fn scratch_bytes(config: &Config, capacity: Capacity) -> usize {
    layers(config, capacity.n_frames, 1).device_scratch
}

/// All layers for steps of `n_frames` frames, of all streams together.
fn layers(config: &Config, n_frames: usize, threads: usize) -> Need {
    let n_latents = n_frames * config.frame_latents();
    let work = |rate: usize| Work { n_rows: n_latents * rate, threads };
    let (latent_dim, dim) = (config.latent_dim(), config.decoder_dim);
    let n_blocks = if config.noise { config.decoder_rates.len() } else { 0 };
    let levels: Vec<[usize; 2]> = config.frame_codes().map(|n_codes| [n_codes, config.codebook_size]).collect();
    let mut all = vec![
        embed(latent_dim, config.codebook_dim, &levels),
        noise(n_blocks),
        depthwise(latent_dim, 7),
        pointwise([latent_dim, dim], work(1)),
    ];
    if let Some(window) = config.attn_window_size {
        all.push(norm(dim));
        all.push(pointwise([dim, 3 * dim], work(1)));
        all.push(attention([dim, HEAD_DIM], window, n_latents));
        all.push(pointwise([dim, dim], work(1)));
    }
    let mut from = Stage { n_channels: dim, rate: 1 };
    for (to, stride) in stages(config).zip(&config.decoder_rates) {
        all.push(upsample([from.n_channels, to.n_channels], *stride, work(from.rate)));
        if config.noise {
            all.push(pointwise([to.n_channels; 2], work(to.rate)));
        }
        all.extend(DILATIONS.map(|dilation| residual(to.n_channels, dilation, work(to.rate))));
        from = to;
    }
    all.push(head(from.n_channels));
    all.into_iter().reduce(Need::with).unwrap_or_default()
}

/// The outputs of the decoder's blocks.
fn stages(config: &Config) -> impl Iterator<Item = Stage> {
    config.decoder_rates.iter().scan(Stage { n_channels: config.decoder_dim, rate: 1 }, |stage, stride| {
        *stage = Stage { n_channels: stage.n_channels / 2, rate: stage.rate * stride };
        Some(Stage { ..*stage })
    })
}

/// What lies between the layers; the state is the layers' own.
pub(super) fn sizes(config: &Config) -> Sizes {
    let widest = stages(config).map(|stage| stage.rate * stage.n_channels);
    Sizes {
        slot_len: 0,
        frame_latents: config.frame_latents(),
        frame_in: config.frame_codes().sum(),
        frame_out: config.frame_len(),
        widest: widest.chain([config.latent_dim(), config.decoder_dim]).max().unwrap_or(0),
        deviates: if config.noise { stages(config).map(|stage| stage.rate).sum() } else { 0 },
        attention: if config.attn_window_size.is_some() { config.decoder_dim } else { 0 },
    }
}
