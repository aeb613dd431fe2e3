//! Decoder: latents `[latent_dim, T]` to sound `[1, T · hop]`.
//!
//! Conv₇ and a projection (one dense Conv₇ without depthwise), attention in some models, then for each rate a block of
//! Snake, transposed convolution, NoiseBlock and three residual units; last Snake, Conv₇ to one channel, and tanh.

use super::attention::{LocalMha, Window};
use super::conv::{Conv1d, Halo, Shape};
use super::conv_transpose::{ConvTranspose1d, Overlap};
use super::layer::{Flow, Snake};
use super::plane::Plane;
use super::residual::{Pending, ResidualUnit};
use crate::Result;
use crate::snac::config::Config;
use crate::snac::noise::Noise;
use crate::snac::weights::Weights;

/// The decoder.
#[derive(Debug)]
pub struct Decoder {
    pub(in crate::snac) entry: Conv1d,
    pub(in crate::snac) project: Option<Conv1d>,
    pub(in crate::snac) attention: Option<LocalMha>,
    pub(in crate::snac) blocks: Vec<Block>,
    pub(in crate::snac) snake: Snake,
    pub(in crate::snac) exit: Conv1d,
}

/// DecoderBlock.
#[derive(Debug)]
pub(in crate::snac) struct Block {
    pub(in crate::snac) snake: Snake,
    pub(in crate::snac) upsample: ConvTranspose1d,
    pub(in crate::snac) noise: Option<Conv1d>,
    pub(in crate::snac) units: Vec<ResidualUnit>,
}

/// Everything that a stream must remember between pieces.
#[derive(Debug, Clone)]
pub struct State {
    entry: Halo,
    attention: Option<Window>,
    blocks: Vec<BlockState>,
    exit: Halo,
}

#[derive(Debug, Clone)]
struct BlockState {
    upsample: Overlap,
    /// Outputs of the transposed convolution so far: the next noise sample.
    position: u64,
    units: Vec<Pending>,
}

impl State {
    /// Returns the number of values held.
    pub fn n_values(&self) -> usize {
        let block =
            |block: &BlockState| block.upsample.n_values() + block.units.iter().map(Pending::n_values).sum::<usize>();
        self.entry.n_values()
            + self.attention.as_ref().map_or(0, Window::n_values)
            + self.blocks.iter().map(block).sum::<usize>()
            + self.exit.n_values()
    }
}

impl Decoder {
    pub(in crate::snac) fn load(weights: &mut Weights<'_>, config: &Config) -> Result<Self> {
        let (latent_dim, dim) = (config.latent_dim(), config.decoder_dim);
        let mut index = 0;
        let mut next = || {
            index += 1;
            format!("decoder.model.{}", index - 1)
        };
        let wide = Shape::same(latent_dim, if config.depthwise { latent_dim } else { dim }, 7);
        let groups = if config.depthwise { latent_dim } else { 1 };
        let entry = Conv1d::load(weights, &next(), Shape { groups, ..wide })?;
        let project = match config.depthwise {
            true => Some(Conv1d::load(weights, &next(), Shape::same(latent_dim, dim, 1))?),
            false => None,
        };
        let attention = match config.attn_window_size {
            Some(window) => Some(LocalMha::load(weights, &next(), dim, window)?),
            None => None,
        };
        let mut n_channels = dim;
        let mut blocks = Vec::new();
        for &rate in &config.decoder_rates {
            blocks.push(Block::load(weights, &next(), n_channels, rate, config)?);
            n_channels /= 2;
        }
        let snake = Snake::load(weights, &next(), n_channels)?;
        let exit = Conv1d::load(weights, &next(), Shape::same(n_channels, 1, 7))?;
        Ok(Self { entry, project, attention, blocks, snake, exit })
    }

    /// Returns the state before the first latent.
    pub fn start(&self) -> State {
        State {
            entry: self.entry.start(),
            attention: self.attention.as_ref().map(LocalMha::start),
            blocks: self.blocks.iter().map(Block::start).collect(),
            exit: self.exit.start(),
        }
    }

    /// Takes latents `[C, T]`, gives the samples that became final.
    pub fn push(&self, state: &mut State, latents: &Plane, noise: &Noise, flow: Flow) -> Vec<f32> {
        let mut x = self.entry.push(&mut state.entry, latents, flow);
        if let Some(project) = &self.project {
            x = project.valid(&x);
        }
        if let Some((attention, window)) = self.attention.as_ref().zip(state.attention.as_mut()) {
            x = attention.push(window, &x, flow);
        }
        for (index, (block, state)) in self.blocks.iter().zip(&mut state.blocks).enumerate() {
            x = block.push(state, x, |start, out| noise.fill(index, start, out), flow);
        }
        self.snake.apply(&mut x);
        let mut samples = self.exit.push(&mut state.exit, &x, flow).into_data();
        samples.iter_mut().for_each(|sample| *sample = sample.tanh());
        samples
    }
}

impl Block {
    fn load(weights: &mut Weights<'_>, name: &str, n_in: usize, rate: usize, config: &Config) -> Result<Self> {
        let n_out = n_in / 2;
        let name = format!("{name}.block");
        let snake = Snake::load(weights, &format!("{name}.0"), n_in)?;
        let upsample = ConvTranspose1d::load(weights, &format!("{name}.1"), [n_in, n_out], rate)?;
        let noise = match config.noise {
            true => {
                let weight = weights.convolution(&format!("{name}.2.linear"), [n_out, n_out, 1])?;
                Some(Conv1d::pointwise(n_out, weight))
            }
            false => None,
        };
        let first = 2 + usize::from(config.noise);
        let groups = if config.depthwise { n_out } else { 1 };
        let units = ResidualUnit::load_three(weights, &name, first, [n_out, groups])?;
        Ok(Self { snake, upsample, noise, units })
    }

    fn start(&self) -> BlockState {
        BlockState {
            upsample: self.upsample.start(),
            position: 0,
            units: self.units.iter().map(ResidualUnit::start).collect(),
        }
    }

    fn push(&self, state: &mut BlockState, mut x: Plane, noise: impl Fn(u64, &mut [f32]) -> bool, flow: Flow) -> Plane {
        self.snake.apply(&mut x);
        let mut x = self.upsample.push(&mut state.upsample, &x, flow);
        if let Some(linear) = &self.noise {
            let mut deviates = vec![0.0; x.len()];
            if noise(state.position, &mut deviates) {
                let scale = linear.valid(&x);
                for channel in 0..x.n_channels() {
                    let products = scale.row(channel).iter().zip(&deviates).map(|(scale, deviate)| scale * deviate);
                    x.row_mut(channel).iter_mut().zip(products).for_each(|(x, product)| *x += product);
                }
            }
        }
        state.position += x.len() as u64;
        for (unit, pending) in self.units.iter().zip(&mut state.units) {
            x = unit.push(pending, x, flow);
        }
        x
    }
}
