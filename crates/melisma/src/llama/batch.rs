//! Sequences of one model that advance together.
//!
//! On a GPU the layers are a graph for each of some numbers of rows, recorded when that many first come up. Other
//! numbers are filled up by repeating the last row, which computes the same once more.

use std::ops::Range;
use std::sync::Arc;

use melisma_kernels::Graph;
use melisma_kernels::language::product::{self, Finish};
use melisma_kernels::lock::Mutex;

use super::layers::{Layers, PAGE_LEN, Recorded, Rows};
use super::model::Model;
use super::sequence::{Sequence, Sequences};
use crate::{Budget, Context, DType, Error, Queue, Result, Tensor, View};

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
    layers: Arc<Mutex<Layers>>,
    /// On a GPU, the layers for some numbers of rows.
    graphs: Vec<(usize, Graph<Recorded>)>,
    /// Row and input of each token that is the last of its input.
    last: Vec<(usize, usize)>,
    /// The logits of the last step, with room for more, and where those of each input are.
    logits: Tensor,
    places: Vec<Range<usize>>,
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
        let (device, budget) = (model.device(), context.budget());
        let layers = Layers::new(context, model, (n_pages as usize, options.context))?;
        Ok(Self {
            layers: Arc::new(Mutex::new(layers)),
            graphs: Vec::new(),
            last: Vec::new(),
            model: Arc::clone(model),
            queue: context.queue().clone(),
            budget: budget.clone(),
            context: options.context,
            sequences: Sequences::new(n_pages, PAGE_LEN),
            logits: Tensor::new(device, budget, DType::F32, &[0])?,
            places: Vec::new(),
        })
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
        self.clear();
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
                let past = self.sequences.get(input.sequence)?;
                let (n, room) = self.layers.lock().rows.push(past, rest)?;
                self.sequences.advance(input.sequence, n);
                rest = &rest[n..];
                if rest.is_empty() {
                    self.last.push((self.layers.lock().rows.ids.len() - 1, index));
                }
                if room == 0 {
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

    /// Removes the rows of a step.
    fn clear(&mut self) {
        self.last.clear();
        self.layers.lock().rows.clear();
    }

    /// Runs the collected rows through all layers, and the head for those that are the last of their input.
    fn forward(&mut self, inputs: &[Input<'_>]) -> Result<()> {
        let n_rows = self.layers.lock().rows.send(&self.queue)?;
        if n_rows == 0 {
            return Ok(());
        }
        if let Some((_, graph)) = self.graphs.iter_mut().find(|(n, _)| *n == n_rows) {
            graph.launch(&self.queue)?;
        } else {
            let mut recorded = Recorded { model: Arc::clone(&self.model), layers: Arc::clone(&self.layers) };
            recorded.run(&self.queue)?;
            if let Queue::Cuda(_) = self.queue {
                let graph = Graph::capture(&self.queue, recorded, |queue, recorded| recorded.run(queue))?;
                self.graphs.push((n_rows, graph));
            }
        }
        self.head(inputs)?;
        self.clear();
        Ok(())
    }

    /// Computes the logits of the last rows: together for neighbours that want the same tokens.
    fn head(&mut self, inputs: &[Input<'_>]) -> Result<()> {
        let model = &self.model;
        let n_channels = model.config().n_channels;
        let mut layers = self.layers.lock();
        let Rows { x, normed, gate_up, .. } = &mut layers.rows;
        for group in self.last.chunk_by(|(_, a), (_, b)| inputs[*a].wanted == inputs[*b].wanted) {
            let mut to = 0;
            for some in group.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
                let (first, n) = (some[0].0, some.len());
                let x = x.view::<f32>()?.range(first * n_channels..(first + n) * n_channels)?;
                let normed = normed.view_mut::<f32>()?.range(to * n_channels..(to + n) * n_channels)?;
                model.norm.run(&self.queue, x, normed)?;
                to += n;
            }
            let wanted = inputs[group[0].1].wanted;
            if let [range] = wanted {
                // The logits of neighbours follow each other.
                let places = self.places[group[0].1].start..self.places[group[group.len() - 1].1].end;
                let x = normed.view::<f32>()?.first(group.len() * n_channels)?;
                let (outputs, y) = (range.start as usize..range.end as usize, self.logits.view_mut()?.range(places)?);
                model.head.run(&self.queue, product::Pass { x, outputs, finish: Finish::Replace, y })?;
                continue;
            }
            let mut done = 0;
            for range in wanted {
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
