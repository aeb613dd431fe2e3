//! A piece of the graph as a model of the embedded engine.

use std::collections::HashSet;

use ::rten::{NodeId, RunOptions, Value, ValueOrView};

use super::NAME;
use super::scope::{Scope, reads};
use super::slot::Slots;
use crate::engine::{Weights, rten};
use crate::onnx::{Graph, Model, Node, Opset, ValueInfo, ValueType};
use crate::{Error, Result};

/// Nodes that run together.
pub(super) struct Piece {
    model: ::rten::Model,
    inputs: Vec<(NodeId, usize)>,
    outputs: Vec<NodeId>,
    to: Vec<usize>,
}

/// The parts of a piece.
pub(super) struct Parts<'m, 'a> {
    pub nodes: &'a [&'m Node],
    /// Values that other steps read.
    pub outputs: &'a [&'m str],
    pub scope: &'a Scope<'m>,
    pub of: &'m Model,
}

impl Piece {
    /// Prepares a piece. Its outputs already have slots.
    pub(super) fn new(parts: &Parts<'_, '_>) -> Result<Self> {
        let made: HashSet<&str> = parts.nodes.iter().flat_map(|node| &node.outputs).map(String::as_str).collect();
        let mut seen = HashSet::new();
        let read: Vec<&str> = parts
            .nodes
            .iter()
            .flat_map(|node| reads(node))
            .filter(|name| !made.contains(name) && seen.insert(*name))
            .collect();
        let inputs: Vec<&str> = read.iter().copied().filter(|name| parts.scope.initializer(name).is_none()).collect();
        let graph = Graph {
            nodes: parts.nodes.iter().map(|&node| node.clone()).collect(),
            initializers: read.iter().filter_map(|name| parts.scope.initializer(name)).cloned().collect(),
            inputs: inputs.iter().map(|name| untyped(name)).collect(),
            outputs: parts.outputs.iter().map(|name| untyped(name)).collect(),
            ..Graph::default()
        };
        let opsets: Vec<Opset> = parts.of.opsets.clone();
        let alone = Model { ir_version: parts.of.ir_version, opsets, graph, rest: Vec::new() };
        let model = rten::load(alone.detached()?, Weights::Packed)?;
        let id =
            |name: &&str| model.node_id(name).map_err(|error| Error::unsupported(format!("{NAME}: `{name}`: {error}")));
        let slot = |name: &&str| {
            parts.scope.slot(name).ok_or_else(|| Error::unsupported(format!("{NAME}: nothing makes `{name}`")))
        };
        let inputs = inputs.iter().map(|name| Ok((id(name)?, slot(name)?))).collect::<Result<_>>()?;
        let outputs = parts.outputs.iter().map(id).collect::<Result<_>>()?;
        let to = parts.outputs.iter().map(slot).collect::<Result<_>>()?;
        Ok(Self { model, inputs, outputs, to })
    }

    pub(super) fn reads(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().map(|&(_, slot)| slot)
    }

    pub(super) fn writes(&self) -> &[usize] {
        &self.to
    }

    /// Runs the piece. Values that no later step reads are moved, so that the engine can modify them in place.
    pub(super) fn run(&self, values: &mut Slots, last: &[usize], options: RunOptions) -> Result<()> {
        let mut given = Vec::with_capacity(self.inputs.len());
        for &(id, slot) in self.inputs.iter().filter(|(_, slot)| last.contains(slot)) {
            given.push((id, ValueOrView::Value(values.take(slot)?)));
        }
        for &(id, slot) in self.inputs.iter().filter(|(_, slot)| !last.contains(slot)) {
            given.push((id, ValueOrView::View(values.get(slot)?.as_view())));
        }
        let results = self.model.run(given, &self.outputs, Some(options));
        let results: Vec<Value> = results.map_err(|error| Error::invalid(format!("{NAME}: {error}")))?;
        self.to.iter().zip(results).for_each(|(&slot, value)| values.set(slot, value));
        Ok(())
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("reads", &self.inputs).field("writes", &self.to).finish_non_exhaustive()
    }
}

fn untyped(name: &str) -> ValueInfo {
    ValueInfo { name: name.to_owned(), r#type: ValueType::Other(Vec::new()), rest: Vec::new() }
}
