//! Computes the memory that a run needs, before anything runs.
//!
//! The shapes of all values follow from those of the inputs, from constants and from small numbers
//! computed with them. Buffers are then counted as the embedded engine uses them. Sizes that depend
//! on the values of larger tensors are unknown in advance: [`Need::hidden`] names their nodes, and
//! [`Admission`] sends the run into a process with a hard limit.

mod limit;
mod pool;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use limit::{Admission, Limits};

use super::chunked::Reach;
use super::ours::chain;
use super::{EngineName, Port};
use crate::Result;
use crate::format::Value;
use crate::onnx::shape::{self, Call, Fact};
use crate::onnx::{Content, Graph, Model, Node};
use crate::text::size;
use pool::Pool;

/// Limit on the nesting of branches.
const MAX_DEPTH: usize = 24;

/// The memory that a run of a model needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// Bytes of weights, each once.
    pub weight_bytes: u64,
    /// Bytes of weights, as stored by the engine.
    pub model_bytes: u64,
    /// The part of them that a slower run can do without.
    pub spare_bytes: u64,
    /// Bytes of inputs, intermediate values and outputs.
    pub run_bytes: u64,
    /// Bytes of inputs and outputs alone, as the caller and the engine hold them.
    pub port_bytes: u64,
    /// Bytes of outputs alone.
    pub output_bytes: u64,
    /// The node that needs the most memory.
    pub largest: Option<Largest>,
    /// Nodes whose outputs depend on data; their size is not counted.
    pub hidden: Vec<Hidden>,
}

/// A node and its outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Largest {
    /// The node's name in messages.
    pub label: String,
    /// Bytes of its outputs and its scratch memory.
    pub bytes: u64,
    /// The shape of its first output.
    pub shape: Vec<u64>,
}

/// A node whose output size is unknown in advance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The node's name in messages.
    pub label: String,
    /// The node's name in the engine.
    pub name: String,
}

impl Need {
    /// Returns the memory that `model` needs with these inputs, in the order of [`Port::inputs`].
    ///
    /// # Errors
    /// `Unsupported` for an input that is not a tensor of numbers.
    pub fn of(model: &Model, inputs: &[Value]) -> Result<Self> {
        Ok(Self::with(model, &facts(model, inputs)?))
    }

    /// Returns the memory that `model` needs if `len` elements of the long axis are computed at
    /// once; `None` if the model cannot be split or a size depends on data.
    pub fn of_piece(model: &Model, inputs: &[Value], len: u64) -> Option<Self> {
        let whole = facts(model, inputs).ok()?;
        let output_bytes = Self::with(model, &whole).output_bytes;
        Self::piece(model, &whole, (Reach::of(model).ok()?, len), output_bytes).filter(|need| need.hidden.is_empty())
    }

    fn piece<'m>(
        model: &'m Model,
        whole: &[(&'m str, Fact)],
        (reach, len): (Reach, u64),
        output_bytes: u64,
    ) -> Option<Self> {
        let [(name, fact)] = whole else { return None };
        let &[batch, channels, total] = fact.shape.as_slice() else { return None };
        let shape = vec![batch, channels, total.min(len.saturating_add(2 * reach.latents as u64))];
        let part = Self::with(model, &[(*name, Fact { shape, numbers: None, ..fact.clone() })]);
        // The whole input and output exist in addition to the piece.
        let beside = fact.bytes().saturating_add(output_bytes);
        Some(Self { run_bytes: part.run_bytes.saturating_add(beside), output_bytes, ..part })
    }

    /// Returns the memory that `model` needs with any inputs of these shapes.
    ///
    /// # Errors
    /// As [`Need::of`].
    pub fn of_shapes<'a>(model: &Model, inputs: impl IntoIterator<Item = (&'a str, &'a [usize])>) -> Result<Self> {
        let ports = Port::inputs(model)?;
        let sizes: HashMap<&str, u64> =
            ports.iter().map(|port| (port.name.as_str(), shape::size(port.dtype))).collect();
        let shapes: HashMap<&str, &[usize]> = inputs.into_iter().collect();
        let fact =
            |name: &'_ str| Fact::new(*sizes.get(name)?, shapes.get(name)?.iter().map(|&axis| axis as u64).collect());
        let named = model.graph.inputs.iter().map(|input| input.name.as_str());
        let facts: Vec<(&str, Fact)> = named.filter_map(|name| Some((name, fact(name)?))).collect();
        Ok(Self::with(model, &facts))
    }

    fn with<'m>(model: &'m Model, inputs: &[(&'m str, Fact)]) -> Self {
        let graph = &model.graph;
        let mut walk = Walk { opset: model.opset("").unwrap_or(1), ..Walk::default() };
        count_reads(graph, &mut walk.reads);
        let Stored { weight_bytes, model_bytes, spare_bytes } = stored(graph);
        let mut need = Self { weight_bytes, model_bytes, spare_bytes, ..Self::default() };
        for (name, fact) in inputs {
            // The caller's array and the engine's copy.
            need.run_bytes = need.run_bytes.saturating_add(fact.bytes().saturating_mul(2));
            walk.facts.insert(name, fact.clone());
        }
        walk.graph(graph, 0);
        let outputs = graph.outputs.iter().filter_map(|output| walk.facts.get(output.name.as_str()));
        need.output_bytes = outputs.fold(0u64, |sum, fact| sum.saturating_add(fact.bytes()));
        // The engine's outputs are in its buffers; the caller receives copies.
        need.port_bytes = need.run_bytes.saturating_add(need.output_bytes.saturating_mul(2));
        need.run_bytes = need.run_bytes.saturating_add(walk.pool.total()).saturating_add(need.output_bytes);
        Self { largest: walk.largest, hidden: walk.hidden, ..need }
    }

    /// Returns the need of `engine`, where it is not the embedded one. On the CPU it holds the weights three
    /// times while it opens: as they were read, as they are handed over, and as it stores them. On a GPU only
    /// the last counts.
    pub(super) fn in_engine(mut self, engine: EngineName, model: &Model) -> Self {
        self.spare_bytes = 0;
        if engine.is_on_gpu() {
            return self;
        }
        self.model_bytes = self.model_bytes.saturating_add(self.weight_bytes.saturating_mul(2));
        if matches!(engine, EngineName::Melisma | EngineName::MelismaChain) && chain::takes(model) {
            // A signal passes in steps; the caller holds its inputs and outputs.
            self.run_bytes = self.run_bytes.min(self.port_bytes.saturating_add(chain::MOST_STEP_BYTES));
        }
        self
    }

    /// Describes what takes the memory, and how much the run needs.
    pub fn describe(&self) -> String {
        format!("{} needs {}", self.run_described(), size::show(self.bytes()))
    }

    /// Describes what takes the memory, up to the words "the run".
    fn run_described(&self) -> String {
        match &self.largest {
            _ if self.model_bytes > self.run_bytes => {
                format!("its weights need {}; the run", size::show(self.model_bytes))
            }
            Some(Largest { label, bytes, shape }) => {
                format!("{label} needs {} for its output of shape {shape:?}; the run", size::show(*bytes))
            }
            None => "the run".to_owned(),
        }
    }

    /// Returns the total bytes.
    pub fn bytes(&self) -> u64 {
        self.model_bytes.saturating_add(self.run_bytes)
    }
}

fn facts<'m>(model: &'m Model, inputs: &[Value]) -> Result<Vec<(&'m str, Fact)>> {
    let ports = Port::inputs(model)?;
    let values: HashMap<&str, &Value> = ports.iter().map(|port| port.name.as_str()).zip(inputs).collect();
    let fact = |name: &'m str| Some((name, Fact::of_value(values.get(name)?)?));
    Ok(model.graph.inputs.iter().filter_map(|input| fact(&input.name)).collect())
}

/// Bytes of weights: each once, as the engine stores them, and the part of these that can be saved.
#[derive(Default)]
struct Stored {
    weight_bytes: u64,
    model_bytes: u64,
    spare_bytes: u64,
}

/// The engine stores constants as they are, and those of products a second time in packed order. The savings assume
/// that only one product is packed at a time.
fn stored(graph: &Graph) -> Stored {
    let (mut all, mut packed, mut largest, mut packed_inside) = (Stored::default(), 0u64, 0u64, 0u64);
    let mut constants: HashMap<&str, u64> = HashMap::new();
    for tensor in &graph.initializers {
        all.weight_bytes = all.weight_bytes.saturating_add(tensor.byte_len() as u64);
        constants.insert(&tensor.name, tensor.byte_len() as u64);
    }
    for node in &graph.nodes {
        if matches!(node.op.as_str(), "MatMul" | "Gemm" | "MatMulInteger") {
            let again = node.inputs.get(1).and_then(|name| constants.remove(name.as_str())).unwrap_or(0);
            packed = packed.saturating_add(again);
            largest = largest.max(again);
        }
        for attribute in &node.attributes {
            if let Content::Tensor(tensor) = &attribute.content {
                all.weight_bytes = all.weight_bytes.saturating_add(tensor.byte_len() as u64);
            }
        }
        for inner in node.graphs().map(stored) {
            all.weight_bytes = all.weight_bytes.saturating_add(inner.weight_bytes);
            packed_inside = packed_inside.saturating_add(inner.model_bytes - inner.weight_bytes);
            all.spare_bytes = all.spare_bytes.saturating_add(inner.spare_bytes);
        }
    }
    all.model_bytes = all.weight_bytes.saturating_add(packed_inside).saturating_add(packed);
    all.spare_bytes = all.spare_bytes.saturating_add(packed - largest);
    all
}

/// Counts how often each value is read, including by subgraphs.
fn count_reads<'m>(graph: &'m Graph, reads: &mut HashMap<&'m str, usize>) {
    for output in &graph.outputs {
        *reads.entry(&output.name).or_default() += 1;
    }
    for node in &graph.nodes {
        node.inputs.iter().for_each(|name| *reads.entry(name).or_default() += 1);
        node.graphs().for_each(|inner| count_reads(inner, reads));
    }
}

/// A walk over the nodes in model order.
#[derive(Default)]
struct Walk<'m> {
    opset: i64,
    facts: HashMap<&'m str, Fact>,
    reads: HashMap<&'m str, usize>,
    pool: Pool<'m>,
    largest: Option<Largest>,
    hidden: Vec<Hidden>,
}

impl<'m> Walk<'m> {
    fn graph(&mut self, graph: &'m Graph, depth: usize) {
        for tensor in &graph.initializers {
            if let Some(fact) = Fact::of_tensor(tensor) {
                self.facts.insert(&tensor.name, fact);
            }
        }
        for node in &graph.nodes {
            if node.graphs().next().is_some() {
                self.branches(node, depth);
            } else {
                self.node(node);
            }
        }
    }

    fn node(&mut self, node: &'m Node) {
        let known = |name: &String| if name.is_empty() { Some(None) } else { self.facts.get(name.as_str()).map(Some) };
        let inputs: Option<Vec<Option<&Fact>>> = node.inputs.iter().map(known).collect();
        let inferred = inputs.and_then(|inputs| {
            let call = Call { node, inputs, opset: self.opset };
            let mut outputs = shape::outputs(&call)?;
            let is_constant = call.inputs.iter().flatten().all(|fact| fact.is_constant);
            outputs.iter_mut().for_each(|fact| fact.is_constant = is_constant);
            Some((shape::scratch_bytes(&call, &outputs), outputs))
        });
        let Some((scratch, outputs)) = inferred else { return self.hide(node) };
        let Some(first) = outputs.first() else { return self.hide(node) };
        let mut bytes = scratch;
        let names = node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty());
        // Outputs without a rule are at most as large as the first.
        let named: Vec<(&'m str, Fact)> =
            names.map(|(index, name)| (name.as_str(), outputs.get(index).unwrap_or(first).clone())).collect();
        self.pool.borrow(scratch);
        for (index, (name, fact)) in named.into_iter().enumerate() {
            bytes = bytes.saturating_add(fact.bytes());
            if index > 0 || !self.reuses(node, name, fact.bytes()) {
                self.pool.take(name, fact.bytes());
            }
            self.facts.insert(name, fact);
        }
        if self.largest.as_ref().is_none_or(|largest| bytes > largest.bytes) {
            self.largest = Some(Largest { label: node.label(), bytes, shape: first.shape.clone() });
        }
        self.release(node);
    }

    /// Returns whether the output replaces an input that is not read again.
    fn reuses(&mut self, node: &'m Node, output: &'m str, bytes: u64) -> bool {
        if !shape::is_in_place(node) {
            return false;
        }
        let reads = &self.reads;
        let is_last = |name: &&String| reads.get(name.as_str()) == Some(&1);
        let free = node.inputs.iter().take(2).filter(is_last);
        let free = free.filter(|name| self.facts.get(name.as_str()).is_some_and(|fact| !fact.is_constant));
        let free: Vec<&String> = free.collect();
        free.into_iter().any(|name| self.pool.hand_over(name, output, bytes))
    }

    fn release(&mut self, node: &'m Node) {
        for name in node.inputs.iter().filter(|name| !name.is_empty()) {
            let Some(reads) = self.reads.get_mut(name.as_str()) else { continue };
            *reads = reads.saturating_sub(1);
            if *reads == 0 && self.facts.get(name.as_str()).is_some_and(|fact| !fact.is_constant) {
                self.pool.give_back(name);
            }
        }
    }

    fn hide(&mut self, node: &'m Node) {
        let name = if node.name.is_empty() { node.label() } else { node.name.clone() };
        self.hidden.push(Hidden { label: node.label(), name });
    }

    /// Walks the chosen branch of an `If`, or both if the condition is unknown. Loops are hidden,
    /// because their memory depends on the number of iterations.
    fn branches(&mut self, node: &'m Node, depth: usize) {
        if !node.is("If") || depth == MAX_DEPTH {
            return self.hide(node);
        }
        let condition = node.inputs.first().and_then(|name| self.facts.get(name.as_str())?.numbers.as_ref()?.first());
        let taken = condition.map(|&number| if number != 0.0 { "then_branch" } else { "else_branch" });
        let mut results: Vec<Vec<Option<Fact>>> = Vec::new();
        for attribute in node.attributes.iter().filter(|attribute| taken.is_none_or(|taken| attribute.name == taken)) {
            if let Content::Graph(branch) = &attribute.content {
                self.graph(branch, depth + 1);
                let fact = |name: &str| self.facts.get(name).cloned();
                results.push(branch.outputs.iter().map(|output| fact(&output.name)).collect());
            }
        }
        self.release(node);
        for (index, name) in node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let mut ways = results.iter().map(|way| way.get(index).cloned().flatten());
            let first = ways.next().flatten();
            match first.filter(|first| ways.all(|way| way.is_some_and(|way| way.shape == first.shape))) {
                Some(fact) => {
                    let numbers = fact.numbers.clone().filter(|_| results.len() == 1);
                    self.facts.insert(name, Fact { numbers, is_constant: false, ..fact });
                }
                None => return self.hide(node),
            }
        }
    }
}
