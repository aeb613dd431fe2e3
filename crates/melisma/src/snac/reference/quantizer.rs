//! ResidualVectorQuantize: latents to codes on several time scales, and back.
//!
//! Level i averages `stride` latents, projects them to the codebook's width and takes the code of largest cosine; its
//! decoded value is subtracted before the next level. Decoding sums over levels the projected code vectors, each
//! repeated `stride` times.

use super::conv::{Conv1d, Shape};
use super::plane::Plane;
use crate::Result;
use crate::snac::config::Config;
use crate::snac::weights::Weights;

/// The quantiser.
#[derive(Debug)]
pub struct Quantizer {
    pub(in crate::snac) levels: Vec<Level>,
    latent_dim: usize,
}

/// A code that the encoder chose.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// The code.
    pub code: i32,
    /// How much larger its cosine is than the next best: near 0, another order of additions may choose that one.
    pub margin: f32,
    /// The next best code.
    pub next: i32,
    /// The squared distance of the next best code, both vectors scaled to length 1.
    pub next_distance: f32,
}

impl Choice {
    /// Two distances tie when they differ by less than this share of the larger one: FP32 sums in another order may
    /// swap them.
    pub const TIE: f32 = 1e-5;

    /// Returns whether the two nearest codes tie.
    pub fn is_tie(self) -> bool {
        2.0 * self.margin < Self::TIE * self.next_distance
    }
}

#[derive(Debug)]
pub(in crate::snac) struct Level {
    pub(in crate::snac) stride: usize,
    pub(in crate::snac) in_proj: Conv1d,
    pub(in crate::snac) out_proj: Conv1d,
    /// `[codebook_size, codebook_dim]`
    pub(in crate::snac) codebook: Vec<f32>,
    /// The codebook with rows of length 1.
    directions: Vec<f32>,
    dim: usize,
}

impl Quantizer {
    pub(in crate::snac) fn load(weights: &mut Weights<'_>, config: &Config) -> Result<Self> {
        let (latent_dim, dim) = (config.latent_dim(), config.codebook_dim);
        let load = |(index, &stride): (usize, &usize)| {
            let name = format!("quantizer.quantizers.{index}");
            let codebook = weights.tensor(&format!("{name}.codebook.weight"), &[config.codebook_size, dim])?;
            let directions = codebook.chunks_exact(dim).flat_map(normalised).collect();
            Ok(Level {
                stride,
                in_proj: Conv1d::load(weights, &format!("{name}.in_proj"), Shape::same(latent_dim, dim, 1))?,
                out_proj: Conv1d::load(weights, &format!("{name}.out_proj"), Shape::same(dim, latent_dim, 1))?,
                codebook,
                directions,
                dim,
            })
        };
        let levels = config.vq_strides.iter().enumerate().map(load).collect::<Result<_>>()?;
        Ok(Self { levels, latent_dim })
    }

    /// Turns codes, one list for each level, into latents `[C, T]`. Codes must lie inside the codebooks, and each
    /// level must have T / stride of them.
    pub fn decode(&self, codes: &[Vec<i32>]) -> Plane {
        let len = self.levels.first().zip(codes.first()).map_or(0, |(level, codes)| level.stride * codes.len());
        let mut sum = Plane::zeros(self.latent_dim, len);
        for (level, codes) in self.levels.iter().zip(codes) {
            add_repeated(&mut sum, &level.decode(codes), level.stride, 1.0);
        }
        sum
    }

    /// Encodes latents `[C, T]` to codes; T must be a multiple of every stride.
    pub fn encode(&self, latents: &Plane) -> Vec<Vec<Choice>> {
        let _span = tracing::info_span!("quantizer", latents = latents.len()).entered();
        let mut residual = latents.clone();
        let encode = |level: &Level| {
            let choices = level.encode(&residual);
            let codes: Vec<i32> = choices.iter().map(|choice| choice.code).collect();
            add_repeated(&mut residual, &level.decode(&codes), level.stride, -1.0);
            choices
        };
        self.levels.iter().map(encode).collect()
    }

    /// Returns the choices of level `given.len()` for latents `[C, T]` whose coarser levels have the codes `given`.
    pub fn encode_after(&self, latents: &Plane, given: &[Vec<i32>]) -> Vec<Choice> {
        let mut residual = latents.clone();
        for (level, codes) in self.levels.iter().zip(given) {
            add_repeated(&mut residual, &level.decode(codes), level.stride, -1.0);
        }
        self.levels.get(given.len()).map_or_else(Vec::new, |level| level.encode(&residual))
    }
}

impl Level {
    fn decode(&self, codes: &[i32]) -> Plane {
        let mut vectors = Plane::zeros(self.dim, codes.len());
        for (t, &code) in codes.iter().enumerate() {
            for d in 0..self.dim {
                vectors.row_mut(d)[t] = self.codebook[code as usize * self.dim + d];
            }
        }
        self.out_proj.valid(&vectors)
    }

    fn encode(&self, residual: &Plane) -> Vec<Choice> {
        let mut pooled = Plane::zeros(residual.n_channels(), residual.len() / self.stride);
        for channel in 0..residual.n_channels() {
            let means = residual.row(channel).chunks_exact(self.stride);
            for (mean, group) in pooled.row_mut(channel).iter_mut().zip(means) {
                *mean = group.iter().sum::<f32>() / self.stride as f32;
            }
        }
        let projected = self.in_proj.valid(&pooled);
        let nearest = |t: usize| {
            let vector: Vec<f32> = (0..self.dim).map(|d| projected.row(d)[t]).collect();
            self.nearest(&vector)
        };
        (0..projected.len()).map(nearest).collect()
    }

    /// Returns the code of largest cosine; the first of equals.
    fn nearest(&self, vector: &[f32]) -> Choice {
        let direction: Vec<f32> = normalised(vector).collect();
        let (mut best, mut second, mut code, mut next) = (f32::NEG_INFINITY, f32::NEG_INFINITY, 0, 0);
        for (index, row) in self.directions.chunks_exact(self.dim).enumerate() {
            let cosine = row.iter().zip(&direction).map(|(a, b)| a * b).sum();
            if cosine > best {
                (best, second, code, next) = (cosine, best, index as i32, code);
            } else if cosine > second {
                (second, next) = (cosine, index as i32);
            }
        }
        Choice { code, margin: best - second, next, next_distance: 2.0 - 2.0 * second }
    }
}

fn add_repeated(sum: &mut Plane, x: &Plane, times: usize, sign: f32) {
    for channel in 0..sum.n_channels() {
        for (group, x) in sum.row_mut(channel).chunks_exact_mut(times).zip(x.row(channel)) {
            group.iter_mut().for_each(|sum| *sum += sign * x);
        }
    }
}

fn normalised(vector: &[f32]) -> impl Iterator<Item = f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
    vector.iter().map(move |x| x / norm)
}
