//! The values visible to a graph: its own and those of the surrounding graphs.

use std::collections::{HashMap, HashSet};

use crate::onnx::{Graph, Node, Tensor};

/// Constants and slots by name.
#[derive(Clone, Default)]
pub(super) struct Scope<'m> {
    constants: HashMap<&'m str, &'m Tensor>,
    slots: HashMap<&'m str, usize>,
}

impl<'m> Scope<'m> {
    /// Returns the scope of a graph nested in this one.
    pub(super) fn within(&self, graph: &'m Graph) -> Self {
        let mut inner = self.clone();
        for tensor in &graph.initializers {
            inner.slots.remove(tensor.name.as_str());
            inner.constants.insert(&tensor.name, tensor);
        }
        inner
    }

    pub(super) fn initializer(&self, name: &str) -> Option<&'m Tensor> {
        self.constants.get(name).copied()
    }

    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        self.slots.get(name).copied()
    }

    pub(super) fn insert(&mut self, name: &'m str, slot: usize) {
        self.slots.insert(name, slot);
    }

    /// Returns the names of values that are not constants.
    pub(super) fn variable(&self, names: impl IntoIterator<Item = &'m str>) -> Vec<&'m str> {
        names.into_iter().filter(|name| !name.is_empty() && self.initializer(name).is_none()).collect()
    }
}

/// Returns the names that a node reads, directly and in its subgraphs, each once.
pub(super) fn reads(node: &Node) -> Vec<&str> {
    let mut names: Vec<&str> = node.inputs.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    node.graphs().for_each(|graph| captures(graph, &mut names));
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// Collects the names that a graph reads from surrounding graphs.
fn captures<'m>(graph: &'m Graph, names: &mut Vec<&'m str>) {
    let inputs = graph.inputs.iter().map(|input| input.name.as_str());
    let own: HashSet<&str> = graph
        .nodes
        .iter()
        .flat_map(|node| &node.outputs)
        .map(String::as_str)
        .chain(graph.initializers.iter().map(|tensor| tensor.name.as_str()))
        .chain(inputs)
        .collect();
    let read = graph.nodes.iter().flat_map(reads).chain(graph.outputs.iter().map(|output| output.name.as_str()));
    names.extend(read.filter(|name| !own.contains(name)));
}
