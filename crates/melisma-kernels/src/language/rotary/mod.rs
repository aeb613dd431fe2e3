//! `rotary`: turns queries and keys by their positions and puts keys and values into the cache.
//! qkv `[R, (Q + 2 H) D]`: Q query heads, H key heads and H value heads of D channels.
//!
//! With a the first half of a head and b the second, (a, b) becomes (a cos - b sin, b cos + a sin)
//! of the angle p · f\[i\] at position p, for channel i < D/2. f\[i\] = θ^(-2i/D), changed by a
//! [`Scaling`]. Angles are rounded to f32, as PyTorch has them. Queries are turned in place; keys
//! and values go to the token's place in the cache, rounded to its type. Every device gives the same
//! bits. Su et al. 2021.
//!
//! D = 2, θ = any: at position 0 nothing turns; at position 1, (1, 0) becomes (cos 1, sin 1).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::tokens::{CacheShape, Tokens};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, Tensor, ViewMut};

/// Rotary positions of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotary {
    /// Q.
    pub n_heads: usize,
    /// The cache; its heads are H.
    pub cache: CacheShape,
    /// θ.
    pub theta: f64,
    /// How the frequencies are changed.
    pub scaling: Scaling,
    /// Positions below this one can be used.
    pub n_positions: usize,
}

/// A change of the frequencies f for texts that are longer than those of the first training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// No change.
    None,
    /// f / factor
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// With the wavelength w = 2π / f and the old context C: f where w < C / high, f / factor where w > C / low, and
    /// between them (1 - s) f / factor + s f with s = (C / w - low) / (high - low).
    Llama3 {
        /// The divisor of the low frequencies.
        factor: f64,
        /// Wavelengths of the old context at and below which f is divided.
        low: f64,
        /// Wavelengths of the old context above which f stays.
        high: f64,
        /// C, in tokens.
        context: f64,
    },
}

impl Scaling {
    fn apply(self, f: f64) -> f64 {
        match self {
            Self::None => f,
            Self::Linear { factor } => f / factor,
            Self::Llama3 { factor, low, high, context } => {
                let wavelength = 2.0 * std::f64::consts::PI / f;
                if wavelength < context / high {
                    f
                } else if wavelength > context / low {
                    f / factor
                } else {
                    let s = (context / wavelength - low) / (high - low);
                    (1.0 - s) * f / factor + s * f
                }
            }
        }
    }
}

/// Rotary positions prepared for one device.
#[derive(Debug)]
pub struct Plan {
    rotary: Rotary,
    on: OnDevice<cpu::Prepared, cuda::Prepared>,
}

/// What a run works on.
#[derive(Debug)]
pub struct Pass<'a> {
    /// `[R, (Q + 2 H) D]`; the queries are turned.
    pub qkv: ViewMut<'a, f32>,
    /// The cache of a layer: f32, or on a GPU bf16 too.
    pub cache: &'a mut Tensor,
}

impl Rotary {
    /// Returns D/2 frequencies.
    fn frequencies(&self) -> impl Iterator<Item = f64> {
        let Self { theta, scaling, cache: CacheShape { head_dim, .. }, .. } = *self;
        (0..head_dim / 2).map(move |i| scaling.apply(theta.powf(-2.0 * i as f64 / head_dim as f64)))
    }

    /// Writes the cosines and sines of all positions: `[position, 2, D/2]`.
    fn write_turns(&self, turns: &mut [f32]) {
        let half = self.cache.head_dim / 2;
        let frequencies: Vec<f32> = self.frequencies().map(|f| f as f32).collect();
        for (position, row) in turns.chunks_exact_mut(2 * half).enumerate() {
            for (i, f) in frequencies.iter().enumerate() {
                let (sin, cos) = f64::from(position as f32 * f).sin_cos();
                (row[i], row[half + i]) = (cos as f32, sin as f32);
            }
        }
    }

    /// Prepares the positions on `device`.
    ///
    /// # Errors
    /// Impossible sizes or frequencies, or the budget or the device refuses.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        self.cache.n_floats()?;
        if self.n_heads == 0 || !self.cache.head_dim.is_multiple_of(2) {
            let Self { n_heads, cache: CacheShape { head_dim, .. }, .. } = self;
            return Err(Error::invalid(format!("rotary: {n_heads} heads of {head_dim} channels")));
        }
        if let Some(f) = self.frequencies().find(|f| !f.is_finite() || *f <= 0.0) {
            return Err(Error::invalid(format!("rotary: theta {} gives the frequency {f}", self.theta)));
        }
        let on = OnDevice::new(
            device,
            |cpu| cpu::Prepared::new(self, cpu.isa, budget),
            |cuda| cuda::Prepared::new(self, cuda, budget),
        )?;
        Ok(Plan { rotary: *self, on })
    }
}

impl Plan {
    /// Turns the rows of `tokens`.
    ///
    /// # Errors
    /// A position is too large, the tokens are of another cache, a view has a wrong length or place, or the device
    /// fails.
    pub fn run(&self, queue: &Queue, tokens: &Tokens, pass: Pass<'_>) -> Result<()> {
        let Rotary { n_heads, cache, n_positions, .. } = self.rotary;
        if tokens.shape() != cache {
            return Err(Error::invalid("rotary: the tokens are of another cache than the plan"));
        }
        if tokens.end() > n_positions {
            return Err(Error::invalid(format!("position {} of at most {n_positions}", tokens.end() - 1)));
        }
        check_len("rotary: qkv", pass.qkv.len(), tokens.len() * (n_heads + 2 * cache.n_heads) * cache.head_dim)?;
        check_len("rotary: cache", pass.cache.len(), cache.n_floats()?)?;
        let _span = kernel_span!(queue, "rotary", [tokens.len()], 8 * pass.qkv.len());
        match self.on.with(queue, "rotary")? {
            Pair::Cpu(prepared, _) => prepared.run(tokens, pass.qkv.host()?, pass.cache.view_mut()?.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, tokens, (pass.qkv.cuda()?, pass.cache)),
        }
    }
}
