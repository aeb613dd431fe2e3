//! Encoder: sound `[1, T · hop]` to latents `[latent_dim, T]`.
//!
//! Conv₇, then for each rate three residual units, Snake and a strided convolution that doubles the channels; attention
//! in some models, and Conv₇ at the end.

use super::attention::{LocalMha, Window};
use super::conv::{Conv1d, Halo, Shape};
use super::layer::{Flow, Snake};
use super::plane::Plane;
use super::residual::{Pending, ResidualUnit};
use crate::Result;
use crate::snac::config::Config;
use crate::snac::weights::Weights;

/// The encoder.
#[derive(Debug)]
pub struct Encoder {
    pub(in crate::snac) entry: Conv1d,
    pub(in crate::snac) blocks: Vec<Block>,
    pub(in crate::snac) attention: Option<LocalMha>,
    pub(in crate::snac) exit: Conv1d,
}

/// EncoderBlock.
#[derive(Debug)]
pub(in crate::snac) struct Block {
    pub(in crate::snac) units: Vec<ResidualUnit>,
    pub(in crate::snac) snake: Snake,
    pub(in crate::snac) downsample: Conv1d,
}

/// Everything that must be remembered between pieces.
#[derive(Debug, Clone)]
pub struct State {
    entry: Halo,
    blocks: Vec<(Vec<Pending>, Halo)>,
    attention: Option<Window>,
    exit: Halo,
}

impl Encoder {
    pub(in crate::snac) fn load(weights: &mut Weights<'_>, config: &Config) -> Result<Self> {
        let mut n_channels = config.encoder_dim;
        let groups = |n_channels: usize| if config.depthwise { n_channels } else { 1 };
        let entry = Conv1d::load(weights, "encoder.block.0", Shape::same(1, n_channels, 7))?;
        let mut blocks = Vec::new();
        let mut index = 1;
        for &stride in &config.encoder_rates {
            let name = format!("encoder.block.{index}.block");
            let shape =
                Shape { stride, padding: stride.div_ceil(2), ..Shape::same(n_channels, 2 * n_channels, 2 * stride) };
            blocks.push(Block {
                units: ResidualUnit::load_three(weights, &name, 0, [n_channels, groups(n_channels)])?,
                snake: Snake::load(weights, &format!("{name}.3"), n_channels)?,
                downsample: Conv1d::load(weights, &format!("{name}.4"), shape)?,
            });
            n_channels *= 2;
            index += 1;
        }
        let mut attention = None;
        if let Some(window) = config.attn_window_size {
            attention = Some(LocalMha::load(weights, &format!("encoder.block.{index}"), n_channels, window)?);
            index += 1;
        }
        let shape = Shape { groups: groups(n_channels), ..Shape::same(n_channels, n_channels, 7) };
        let exit = Conv1d::load(weights, &format!("encoder.block.{index}"), shape)?;
        Ok(Self { entry, blocks, attention, exit })
    }

    /// Returns the state before the first sample.
    pub fn start(&self) -> State {
        let block = |block: &Block| (block.units.iter().map(ResidualUnit::start).collect(), block.downsample.start());
        State {
            entry: self.entry.start(),
            blocks: self.blocks.iter().map(block).collect(),
            attention: self.attention.as_ref().map(LocalMha::start),
            exit: self.exit.start(),
        }
    }

    /// Takes sound `[1, T]`, gives the latents that became final.
    pub fn push(&self, state: &mut State, sound: &Plane, flow: Flow) -> Plane {
        let mut x = self.entry.push(&mut state.entry, sound, flow);
        for (block, (units, halo)) in self.blocks.iter().zip(&mut state.blocks) {
            for (unit, pending) in block.units.iter().zip(units) {
                x = unit.push(pending, x, flow);
            }
            block.snake.apply(&mut x);
            x = block.downsample.push(halo, &x, flow);
        }
        if let Some((attention, window)) = self.attention.as_ref().zip(state.attention.as_mut()) {
            x = attention.push(window, &x, flow);
        }
        self.exit.push(&mut state.exit, &x, flow)
    }
}
