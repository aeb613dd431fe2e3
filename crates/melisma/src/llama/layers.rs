//! The layers of a model, what they keep, and the tokens on their way through them.

use std::sync::Arc;

use melisma_kernels::language::attention::{self, Attention};
use melisma_kernels::language::gated;
use melisma_kernels::language::numbers::Numbers;
use melisma_kernels::language::product::{self, Finish};
use melisma_kernels::language::rotary::{self, Rotary};
use melisma_kernels::language::tokens::{CacheShape, Tokens};
use melisma_kernels::lock::Mutex;

use super::config::Config;
use super::model::{Layer, Model};
use super::sequence::Past;
use crate::{Context, DType, Device, Queue, Result, Tensor, View, ViewMut};

/// Tokens of a page. The order of the sums of attention depends on it.
pub(crate) const PAGE_LEN: usize = 64;

/// Returns the most rows that are computed at once; longer prompts are cut, which changes no bit. A GPU reads the
/// weights once for all of them.
fn max_rows(device: &Device) -> usize {
    match device {
        Device::Cpu(_) => 64,
        Device::Cuda(_) => 256,
    }
}

/// Returns how many rows a GPU computes for `n`: a power of two, from 16 on also half-way between two, and from 64 on a
/// multiple of 32.
fn filled(n: usize) -> usize {
    match n {
        0..=16 => n.next_power_of_two(),
        17..=64 => n.next_multiple_of(if n <= 32 { 8 } else { 16 }),
        _ => n.next_multiple_of(32),
    }
}

/// Returns the bytes of the tokens on their way through the layers.
#[cfg(feature = "speak")]
pub(crate) fn row_bytes(config: &Config, device: &Device) -> usize {
    let [queries, keys] = config.widths();
    let most = max_rows(device);
    let widest = config.n_inner.max(queries).max(config.n_channels);
    4 * most * (2 * config.n_channels + 2 * queries + 2 * keys + 3 * config.n_inner)
        + product::scratch_bytes(device, most, widest)
}

/// What a graph of the layers works on.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) model: Arc<Model>,
    pub(super) layers: Arc<Mutex<Layers>>,
}

/// What the layers share and keep.
#[derive(Debug)]
pub(super) struct Layers {
    passes: Passes,
    /// One for each layer.
    caches: Vec<Tensor>,
    pub(super) rows: Rows,
}

/// What all layers share.
#[derive(Debug)]
struct Passes {
    rotary: rotary::Plan,
    attention: attention::Plan,
    gated: gated::Plan,
}

/// Up to [`max_rows`] tokens on their way through the layers.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) ids: Numbers,
    tokens: Tokens,
    /// The most of them.
    most: usize,
    pub(super) x: Tensor,
    pub(super) normed: Tensor,
    qkv: Tensor,
    mixed: Tensor,
    pub(super) gate_up: Tensor,
    inner: Tensor,
}

impl Layers {
    /// Opens caches of so many pages for sequences of so many tokens.
    pub(super) fn new(context: &Context, model: &Model, (n_pages, n_positions): (usize, usize)) -> Result<Self> {
        let (device, budget, config, dtype) = (context.device(), context.budget(), model.config(), model.cache_type());
        let (n_heads, head_dim) = (config.n_key_heads, config.head_dim);
        let shape = CacheShape { n_pages, page_len: PAGE_LEN, n_heads, head_dim };
        let rotary =
            Rotary { n_heads: config.n_heads, cache: shape, theta: config.theta, scaling: config.scaling, n_positions };
        let passes = Passes {
            rotary: rotary.plan(device, budget)?,
            attention: Attention { n_heads: config.n_heads, cache: shape }.plan(device, dtype)?,
            gated: gated::plan(device, config.n_inner)?,
        };
        let cache = |_| Tensor::new(device, budget, dtype, &[shape.n_floats()?]);
        let caches = (0..config.n_layers).map(cache).collect::<Result<_>>()?;
        Ok(Self { passes, caches, rows: Rows::new(context, config, shape)? })
    }
}

impl Recorded {
    pub(super) fn run(&mut self, queue: &Queue) -> Result<()> {
        let mut layers = self.layers.lock();
        let Layers { passes, caches, rows } = &mut *layers;
        rows.embed(&self.model, queue)?;
        for (layer, cache) in self.model.layers.iter().zip(caches) {
            rows.pass(layer, passes, queue, cache)?;
        }
        Ok(())
    }
}

impl Rows {
    fn new(context: &Context, config: &Config, shape: CacheShape) -> Result<Self> {
        let [queries, keys] = config.widths();
        let most = max_rows(context.device());
        let tensor = |n: usize| Tensor::new(context.device(), context.budget(), DType::F32, &[most, n]);
        Ok(Self {
            most,
            ids: Numbers::new(context.device(), most, context.budget())?,
            tokens: Tokens::new(shape, most, context.device(), context.budget())?,
            x: tensor(config.n_channels)?,
            normed: tensor(config.n_channels)?,
            qkv: tensor(queries + 2 * keys)?,
            mixed: tensor(queries)?,
            gate_up: tensor(2 * config.n_inner)?,
            inner: tensor(config.n_inner)?,
        })
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.tokens.clear();
    }

    /// Adds as many of the next `tokens` of a sequence as there is room for; returns how many, and the room that is left.
    pub(super) fn push(&mut self, past: &Past, tokens: &[u32]) -> Result<(usize, usize)> {
        let room = self.most - self.ids.len();
        let n = tokens.len().min(room);
        self.tokens.push(&past.pages, past.len..past.len + n)?;
        self.ids.extend(tokens[..n].iter().copied());
        Ok((n, room - n))
    }

    /// Sends the tokens to the device, and returns how many rows they are there.
    pub(super) fn send(&mut self, queue: &Queue) -> Result<usize> {
        if let (Queue::Cuda(_), Some(&last)) = (queue, self.ids.as_slice().last()) {
            let n = filled(self.ids.len()) - self.ids.len();
            self.ids.extend(std::iter::repeat_n(last, n));
            self.tokens.repeat_last(n);
        }
        self.ids.send(queue)?;
        self.tokens.send(queue)?;
        Ok(self.ids.len())
    }

    /// Looks the embeddings of the tokens up.
    fn embed(&mut self, model: &Model, queue: &Queue) -> Result<()> {
        let n = self.ids.len();
        model.embedding.run(queue, &self.ids, rows_mut(&mut self.x, n)?)
    }

    fn pass(&mut self, layer: &Layer, passes: &Passes, queue: &Queue, cache: &mut Tensor) -> Result<()> {
        let n = self.ids.len();
        let Self { tokens, x, normed, qkv, mixed, gate_up, inner, .. } = self;
        let multiply = |plan: &product::Plan, from: &Tensor, to: &mut Tensor, finish| {
            let (x, y) = (rows(from, n)?, rows_mut(to, n)?);
            plan.run(queue, product::Pass { x, outputs: 0..plan.n_outputs(), finish, y })
        };
        layer.attention_norm.run(queue, rows(x, n)?, rows_mut(normed, n)?)?;
        multiply(&layer.qkv, normed, qkv, Finish::Replace)?;
        let pass = rotary::Pass { qkv: rows_mut(qkv, n)?, cache };
        passes.rotary.run(queue, tokens, pass)?;
        let pass = attention::Pass { qkv: rows(qkv, n)?, cache, y: rows_mut(mixed, n)? };
        passes.attention.run(queue, tokens, pass)?;
        multiply(&layer.output, mixed, x, Finish::Add)?;
        layer.inner_norm.run(queue, rows(x, n)?, rows_mut(normed, n)?)?;
        multiply(&layer.gate_up, normed, gate_up, Finish::Replace)?;
        passes.gated.run(queue, rows(gate_up, n)?, rows_mut(inner, n)?)?;
        multiply(&layer.down, inner, x, Finish::Add)
    }
}

/// Returns the first `n` rows of a buffer.
fn rows(tensor: &Tensor, n: usize) -> Result<View<'_, f32>> {
    tensor.view()?.first(n * tensor.shape()[1])
}

fn rows_mut(tensor: &mut Tensor, n: usize) -> Result<ViewMut<'_, f32>> {
    let len = n * tensor.shape()[1];
    tensor.view_mut()?.first(len)
}
