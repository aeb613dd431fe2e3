//! `attention`: each row attends to its past in a paged cache. qkv `[R, (Q + 2 H) D]` after
//! [`rotary`](super::rotary), y `[R, Q D]`.
//!
//! Query head q reads key head q div (Q / H). Over the tokens j of the row's sequence up to itself,
//! y = Σ_j softmax_j(q · k_j / √D) v_j. Every page is a partial softmax: the largest score m, the
//! sum of e^(s - m) and the values weighted with it, j ascending; then the pages are combined in
//! their order. So a token has the same bits in a prompt and on its own, whatever the batch and
//! the threads, and on every instruction set. On a GPU the sums have other orders, which the past
//! alone decides, and D is a multiple of 4; its cache may be of bf16 too, and then D is a multiple of
//! 8. Within 1e-5 of the exact value for inputs below 1. NaN in a key, value or query makes the output
//! NaN.
//!
//! A first token sees itself alone: y is its value.

mod cpu;
mod cuda;
mod exact;
mod halved;
#[cfg(test)]
mod reference;
mod shape;
#[cfg(test)]
mod tests;

use super::tokens::{CacheShape, Tokens};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{DType, Device, Error, Queue, Result, Tensor, View, ViewMut};

/// Attention of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Q, a multiple of the cache's heads.
    pub n_heads: usize,
    /// The cache; its heads are H.
    pub cache: CacheShape,
}

/// Attention prepared for one device.
#[derive(Debug)]
pub struct Plan {
    attention: Attention,
    on: OnDevice<cpu::Prepared, cuda::Prepared>,
}

/// What a run works on.
#[derive(Debug)]
pub struct Pass<'a> {
    /// `[R, (Q + 2 H) D]`, of which the queries are read.
    pub qkv: View<'a, f32>,
    /// The cache of a layer, with the keys and values of the rows themselves: f32, or on a GPU what the plan is for.
    pub cache: &'a Tensor,
    /// `[R, Q D]`
    pub y: ViewMut<'a, f32>,
}

impl Attention {
    /// Returns the queries of a key head.
    fn group(&self) -> usize {
        self.n_heads / self.cache.n_heads
    }

    /// Prepares it on `device`, for a cache of `cache` elements.
    ///
    /// # Errors
    /// Impossible sizes, or sizes or a cache that the device does not support.
    pub fn plan(&self, device: &Device, cache: DType) -> Result<Plan> {
        self.cache.n_floats()?;
        if self.n_heads == 0 || !self.n_heads.is_multiple_of(self.cache.n_heads) {
            let (heads, keys) = (self.n_heads, self.cache.n_heads);
            return Err(Error::invalid(format!("attention: {heads} heads are not a multiple of {keys} key heads")));
        }
        let on = OnDevice::new(
            device,
            |cpu| match cache {
                DType::F32 => Ok(cpu::Prepared::new(*self, cpu.isa)),
                other => Err(Error::unsupported(format!("attention: a cache of {} on the CPU", other.name()))),
            },
            |cuda| cuda::Prepared::new(*self, cache, cuda),
        )?;
        Ok(Plan { attention: *self, on })
    }
}

impl Plan {
    /// Computes the rows of `tokens`.
    ///
    /// # Errors
    /// The tokens are of another cache, a view has a wrong length or place, there is not enough scratch, or the device
    /// fails.
    pub fn run(&self, queue: &Queue, tokens: &Tokens, pass: Pass<'_>) -> Result<()> {
        let Attention { n_heads, cache } = self.attention;
        if tokens.shape() != cache {
            return Err(Error::invalid("attention: the tokens are of another cache than the plan"));
        }
        check_len("attention: qkv", pass.qkv.len(), tokens.len() * (n_heads + 2 * cache.n_heads) * cache.head_dim)?;
        check_len("attention: y", pass.y.len(), tokens.len() * n_heads * cache.head_dim)?;
        check_len("attention: cache", pass.cache.len(), cache.n_floats()?)?;
        let n_seen: usize = (0..tokens.len()).map(|row| tokens.position(row) + 1).sum();
        let bytes = 2 * pass.cache.dtype().size() * n_seen * cache.n_heads * cache.head_dim;
        let _span = kernel_span!(queue, "attention", [tokens.len(), n_seen], bytes);
        match self.on.with(queue, "attention")? {
            Pair::Cpu(prepared, queue) => {
                prepared.run(queue, tokens, (pass.qkv.host()?, pass.cache.view()?.host()?), pass.y.host()?)
            }
            Pair::Cuda(prepared, queue) => {
                prepared.run(queue, (self.attention, tokens), (pass.qkv.cuda()?, pass.cache), pass.y.cuda()?)
            }
        }
    }
}
