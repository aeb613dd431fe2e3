//! Sequences of one model that advance together.

use std::ops::Range;
use std::sync::Arc;

use melisma_kernels::language::attention::{self, Attention};
use melisma_kernels::language::gated;
use melisma_kernels::language::numbers::Numbers;
use melisma_kernels::language::product::{self, Finish};
use melisma_kernels::language::rotary::{self, Rotary};
use melisma_kernels::language::tokens::{CacheShape, Tokens};

use super::config::Config;
use super::model::{Layer, Model};
use super::sequence::{Sequence, Sequences};
use crate::{Budget, Context, DType, Error, Queue, Result, Tensor, View, ViewMut};

/// Tokens of a page. The order of the sums of attention depends on it.
pub(crate) const PAGE_LEN: usize = 64;
/// The most rows that are computed at once; longer prompts are cut, which changes no bit.
const MAX_ROWS: usize = 64;

/// The size of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The most tokens of a sequence.
    pub context: usize,
    /// Tokens of all sequences together that the cache has room for.
    pub n_cached: usize,
}

/// The next tokens of a sequence.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The sequence; at most once in a step.
    pub sequence: &'a Sequence,
    /// Its next tokens, at least one.
    pub tokens: &'a [u32],
    /// The tokens whose logits are computed, in this order.
    pub wanted: &'a [Range<u32>],
}

/// Sequences of one model, and their past.
#[derive(Debug)]
pub struct Batch {
    model: Arc<Model>,
    queue: Queue,
    budget: Budget,
    context: usize,
    sequences: Sequences,
    passes: Passes,
    /// One for each layer.
    caches: Vec<Tensor>,
    rows: Rows,
    /// The logits of the last step, with room for more, and where those of each input are.
    logits: Tensor,
    places: Vec<Range<usize>>,
}

/// What all layers share.
#[derive(Debug)]
struct Passes {
    rotary: rotary::Plan,
    attention: attention::Plan,
    gated: gated::Plan,
}

/// Up to [`MAX_ROWS`] tokens on their way through the layers.
#[derive(Debug)]
struct Rows {
    ids: Numbers,
    tokens: Tokens,
    /// Row and input of each token that is the last of its input.
    last: Vec<(usize, usize)>,
    x: Tensor,
    normed: Tensor,
    qkv: Tensor,
    mixed: Tensor,
    gate_up: Tensor,
    inner: Tensor,
}

impl Batch {
    /// Opens a batch on the device of `context`, on which `model` was opened.
    ///
    /// # Errors
    /// The context is longer than the model's, or memory is too small.
    pub fn new_in(context: &Context, model: &Arc<Model>, options: Options) -> Result<Self> {
        let config = model.config();
        if options.context > config.context {
            let (asked, most) = (options.context, config.context);
            return Err(Error::invalid(format!("a context of {asked} tokens; the model has at most {most}")));
        }
        let n_pages = options.n_cached.div_ceil(PAGE_LEN);
        let n_pages = u32::try_from(n_pages)
            .map_err(|_| Error::invalid(format!("a cache of {} tokens is too large", options.n_cached)))?;
        let shape = CacheShape {
            n_pages: n_pages as usize,
            page_len: PAGE_LEN,
            n_heads: config.n_key_heads,
            head_dim: config.head_dim,
        };
        let (device, budget) = (model.device(), context.budget());
        let rotary = Rotary {
            n_heads: config.n_heads,
            cache: shape,
            theta: config.theta,
            scaling: config.scaling,
            n_positions: options.context,
        };
        let cache = |_| Tensor::new(device, budget, DType::F32, &[shape.n_floats()?]);
        Ok(Self {
            passes: Passes {
                rotary: rotary.plan(device, budget)?,
                attention: Attention { n_heads: config.n_heads, cache: shape }.plan(device)?,
                gated: gated::plan(device, config.n_inner)?,
            },
            caches: (0..config.n_layers).map(cache).collect::<Result<_>>()?,
            rows: Rows::new(context, config, shape)?,
            model: Arc::clone(model),
            queue: context.queue().clone(),
            budget: budget.clone(),
            context: options.context,
            sequences: Sequences::new(n_pages, PAGE_LEN),
            logits: Tensor::new(device, budget, DType::F32, &[0])?,
            places: Vec::new(),
        })
    }

    /// Returns the bytes of the tokens on their way through the layers.
    #[cfg(feature = "speak")]
    pub(crate) fn row_bytes(config: &Config) -> usize {
        let [queries, keys] = config.widths();
        4 * MAX_ROWS * (2 * config.n_channels + 2 * queries + 2 * keys + 3 * config.n_inner)
    }

    /// Opens an empty sequence.
    pub fn open(&mut self) -> Sequence {
        self.sequences.open()
    }

    /// Gives the memory of a sequence back.
    pub fn close(&mut self, sequence: Sequence) {
        self.sequences.close(sequence);
    }

    /// Returns the number of tokens that a sequence has had.
    ///
    /// # Errors
    /// The sequence belongs to another batch.
    pub fn len(&self, sequence: &Sequence) -> Result<usize> {
        Ok(self.sequences.get(sequence)?.len)
    }

    /// Returns the number of tokens that the cache still has room for, in whole pages.
    pub fn room(&self) -> usize {
        self.sequences.room()
    }

    /// Takes the next tokens of some sequences and computes the logits after the last token of each.
    ///
    /// # Errors
    /// Nothing has changed if an input has no tokens, unknown ones or too many, if a sequence occurs twice or the cache
    /// is full. Otherwise the device failed.
    pub fn step(&mut self, inputs: &[Input<'_>]) -> Result<()> {
        self.rows.clear();
        self.check(inputs)?;
        let wanted: Vec<_> = inputs.iter().map(|input| (input.sequence, input.tokens.len())).collect();
        self.sequences.reserve(&wanted)?;
        self.places.clear();
        let mut end = 0;
        for input in inputs {
            let len: usize = input.wanted.iter().map(ExactSizeIterator::len).sum();
            self.places.push(end..end + len);
            end += len;
        }
        if self.logits.len() < end {
            let len = end.next_power_of_two();
            // Work that writes the earlier ones may be under way.
            self.queue.synchronize()?;
            self.logits = Tensor::new(self.model.device(), &self.budget, DType::F32, &[len])?;
        }
        for (index, input) in inputs.iter().enumerate() {
            let mut rest = input.tokens;
            while !rest.is_empty() {
                let n = rest.len().min(MAX_ROWS - self.rows.ids.len());
                let past = self.sequences.get(input.sequence)?;
                self.rows.tokens.push(&past.pages, past.len..past.len + n)?;
                self.rows.ids.extend(rest[..n].iter().copied());
                self.sequences.advance(input.sequence, n);
                rest = &rest[n..];
                if rest.is_empty() {
                    self.rows.last.push((self.rows.ids.len() - 1, index));
                }
                if self.rows.ids.len() == MAX_ROWS {
                    self.forward(inputs)?;
                }
            }
        }
        self.forward(inputs)
    }

    /// Returns the logits that the last step computed for its input number `index`: one for each token of `wanted`, in
    /// the memory of the device.
    ///
    /// # Errors
    /// The last step had no such input.
    pub fn logits(&self, index: usize) -> Result<View<'_, f32>> {
        let place = self.places.get(index).ok_or_else(|| Error::invalid(format!("the step had no input {index}")))?;
        self.logits.view()?.range(place.clone())
    }

    fn check(&self, inputs: &[Input<'_>]) -> Result<()> {
        let n_tokens = self.model.config().n_tokens;
        for (index, input) in inputs.iter().enumerate() {
            let len = self.sequences.get(input.sequence)?.len;
            if input.tokens.is_empty() {
                return Err(Error::invalid(format!("input {index} of the step has no tokens")));
            }
            if inputs[..index].iter().any(|other| other.sequence == input.sequence) {
                return Err(Error::invalid(format!("the sequence of input {index} occurs twice in the step")));
            }
            if input.tokens.len() > self.context - len {
                let (n, most) = (input.tokens.len(), self.context);
                return Err(Error::invalid(format!("{n} tokens after {len} do not fit into a context of {most}")));
            }
            if let Some(token) = input.tokens.iter().find(|&&token| token as usize >= n_tokens) {
                return Err(Error::invalid(format!("token {token} of a vocabulary of {n_tokens}")));
            }
            if let Some(wanted) = input.wanted.iter().find(|range| range.end as usize > n_tokens) {
                return Err(Error::invalid(format!("logits of {wanted:?} of a vocabulary of {n_tokens}")));
            }
        }
        Ok(())
    }

    /// Runs the collected rows through all layers, and the head for those that are the last of their input.
    fn forward(&mut self, inputs: &[Input<'_>]) -> Result<()> {
        if self.rows.ids.is_empty() {
            return Ok(());
        }
        let (model, queue) = (Arc::clone(&self.model), self.queue.clone());
        self.rows.embed(&model, &queue)?;
        for (layer, cache) in model.layers.iter().zip(&mut self.caches) {
            self.rows.pass(layer, &self.passes, &queue, cache)?;
        }
        self.head(&model, inputs)?;
        self.rows.clear();
        Ok(())
    }

    /// Computes the logits of the last rows: together for neighbours that want the same tokens.
    fn head(&mut self, model: &Model, inputs: &[Input<'_>]) -> Result<()> {
        let n_channels = model.config().n_channels;
        let Rows { last, x, normed, gate_up, .. } = &mut self.rows;
        for group in last.chunk_by(|(_, a), (_, b)| inputs[*a].wanted == inputs[*b].wanted) {
            let mut to = 0;
            for some in group.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
                let (first, n) = (some[0].0, some.len());
                let x = x.view::<f32>()?.range(first * n_channels..(first + n) * n_channels)?;
                let normed = normed.view_mut::<f32>()?.range(to * n_channels..(to + n) * n_channels)?;
                model.norm.run(&self.queue, x, normed)?;
                to += n;
            }
            let mut done = 0;
            for range in inputs[group[0].1].wanted {
                let range = range.start as usize..range.end as usize;
                // Rows of the widest buffer, as many columns at a time as fit.
                let most = gate_up.len() / group.len();
                for first in range.clone().step_by(most) {
                    let outputs = first..range.end.min(first + most);
                    let n = outputs.len();
                    let x = normed.view::<f32>()?.first(group.len() * n_channels)?;
                    let y = gate_up.view_mut::<f32>()?.first(group.len() * n)?;
                    model.head.run(&self.queue, product::Pass { x, outputs, finish: Finish::Replace, y })?;
                    for (from, (_, input)) in group.iter().enumerate() {
                        let to = self.places[*input].start + done;
                        let y = gate_up.view::<f32>()?.range(from * n..(from + 1) * n)?;
                        self.queue.copy(y, self.logits.view_mut()?.range(to..to + n)?)?;
                    }
                    done += n;
                }
            }
        }
        Ok(())
    }
}

impl Rows {
    fn new(context: &Context, config: &Config, shape: CacheShape) -> Result<Self> {
        let [queries, keys] = config.widths();
        let tensor = |n: usize| Tensor::new(context.device(), context.budget(), DType::F32, &[MAX_ROWS, n]);
        Ok(Self {
            ids: Numbers::new(context.device(), context.budget())?,
            tokens: Tokens::new(shape, context.device(), context.budget())?,
            last: Vec::with_capacity(MAX_ROWS),
            x: tensor(config.n_channels)?,
            normed: tensor(config.n_channels)?,
            qkv: tensor(queries + 2 * keys)?,
            mixed: tensor(queries)?,
            gate_up: tensor(2 * config.n_inner)?,
            inner: tensor(config.n_inner)?,
        })
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.tokens.clear();
        self.last.clear();
    }

    /// Sends the tokens to the device and looks their embeddings up.
    fn embed(&mut self, model: &Model, queue: &Queue) -> Result<()> {
        self.ids.send(queue)?;
        self.tokens.send(queue)?;
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
        let pass = rotary::Pass { qkv: rows_mut(qkv, n)?, cache: cache.view_mut()? };
        passes.rotary.run(queue, tokens, pass)?;
        let pass = attention::Pass { qkv: rows(qkv, n)?, cache: cache.view()?, y: rows_mut(mixed, n)? };
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
