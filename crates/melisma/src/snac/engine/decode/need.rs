//! Memory that an engine takes, by the configuration alone.

use melisma_kernels::layer::need::{
    Need, Work, attention, depthwise, embed, head, noise, norm, pointwise, residual, upsample,
};
use melisma_kernels::layer::step::Rows;

use super::super::ring::N_ENTRIES;
use super::Engine;
use super::batch::Capacity;
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::config::{Config, HEAD_DIM};
use crate::snac::residual::DILATIONS;

/// Channels and time steps per latent of a layer's output.
struct Stage {
    n_channels: usize,
    rate: usize,
}

impl Engine {
    /// The most memory that an engine for models of this shape takes on `device`, its queue's scratch included, whatever
    /// it decodes; nothing for a model that the engine has no kernels for.
    pub fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        if !config.depthwise {
            return Needed::default();
        }
        let capacity = Capacity::new(config, max_streams);
        match device {
            Device::Cpu(cpu) => Needed { host: on_cpu(config, capacity, cpu.threads) as u64, device: 0 },
            Device::Cuda(_) => on_cuda(config, capacity),
        }
    }
}

fn on_cpu(config: &Config, capacity: Capacity, threads: usize) -> usize {
    let steps = (1..=capacity.n_frames).map(|n_frames| layers(config, n_frames, threads));
    // Scratch grows to what the largest step needs; weights and state are those of any.
    let total = steps.reduce(|a, b| Need { scratch: a.scratch.max(b.scratch), shared: a.shared.max(b.shared), ..a });
    let Need { weights, scratch, shared, state, .. } = total.unwrap_or_default();
    let Buffers { between, codes, samples } = Buffers::new(config, capacity);
    let slots = (capacity.n_slots + N_SPARE_SLOTS) * state;
    weights + threads * scratch + shared + slots + between + 2 * codes + (1 + N_ENTRIES) * samples
}

fn on_cuda(config: &Config, capacity: Capacity) -> Needed {
    let need = layers(config, capacity.n_frames, 1);
    let Buffers { between, codes, samples } = Buffers::new(config, capacity);
    let (slot, rows) = (2 * need.state, Rows::bytes(capacity.n_rows));
    let slots = (capacity.n_slots + N_SPARE_SLOTS) * slot;
    let device = need.device_weights + need.device_scratch + slots + between + codes + samples + rows;
    // Codes, samples and rows on their way, and a slot of zeros.
    let host = codes + N_ENTRIES * samples + rows + slot;
    Needed { host: host as u64, device: device as u64 }
}

/// Scratch on a GPU for the largest step.
pub(super) fn scratch_bytes(config: &Config, capacity: Capacity) -> usize {
    layers(config, capacity.n_frames, 1).device_scratch
}

/// Slots beside the arena: one of zeros, one on its way.
const N_SPARE_SLOTS: usize = 2;

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

/// Bytes that lie between the layers, and on the way to them and back.
struct Buffers {
    between: usize,
    codes: usize,
    samples: usize,
}

impl Buffers {
    fn new(config: &Config, capacity: Capacity) -> Self {
        let widest = stages(config).map(|stage| stage.rate * stage.n_channels);
        let widest = widest.chain([config.latent_dim(), config.decoder_dim]).max().unwrap_or(0);
        let deviates: usize = if config.noise { stages(config).map(|stage| stage.rate).sum() } else { 0 };
        let attention = if config.attn_window_size.is_some() { 4 * config.decoder_dim } else { 0 };
        let n_latents = capacity.n_frames * capacity.frame_latents;
        Self {
            between: n_latents * (deviates + 2 * widest + attention) * size_of::<f32>(),
            codes: capacity.n_frames * capacity.frame_codes * size_of::<i32>(),
            samples: n_latents * config.hop_len() * size_of::<f32>(),
        }
    }
}
