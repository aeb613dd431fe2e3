//! The invariants of every model: each value has one source, nodes precede their readers, and there
//! are no cycles.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Graph, Model, Node};
use crate::{Error, ErrorKind, Result};

/// The newest format version that this build supports.
const MAX_IR_VERSION: i64 = 20;

/// Checks the model and puts its nodes in order.
pub(super) fn checked(mut model: Model) -> Result<Model> {
    if !(1..=MAX_IR_VERSION).contains(&model.ir_version) {
        return Err(Error::new(ErrorKind::Version, format!("unsupported ONNX format version {}", model.ir_version)));
    }
    if model.graph.nodes.iter().any(|node| node.domain.is_empty()) && model.opset("").is_none() {
        return Err(Error::corrupt("the model does not say which version of ONNX's operators it uses"));
    }
    graph(&mut model.graph, &Scope { names: HashSet::new(), outer: None })?;
    Ok(model)
}

/// The names visible to a graph, including those of surrounding graphs.
struct Scope<'o> {
    names: HashSet<String>,
    outer: Option<&'o Scope<'o>>,
}

impl Scope<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.outer.is_some_and(|outer| outer.has(name))
    }
}

fn graph(graph: &mut Graph, outer: &Scope<'_>) -> Result<()> {
    let mut scope = Scope { names: HashSet::new(), outer: Some(outer) };
    for input in &graph.inputs {
        if !scope.names.insert(input.name.clone()) {
            return Err(Error::corrupt(format!("two inputs are called `{}`", input.name)));
        }
    }
    let mut constants = HashSet::new();
    for tensor in &graph.initializers {
        if tensor.name.is_empty() || !constants.insert(tensor.name.as_str()) {
            return Err(Error::corrupt(format!("two initialisers are called `{}`", tensor.name)));
        }
        scope.names.insert(tensor.name.clone());
    }
    let makers = makers(&graph.nodes, &scope)?;
    order(graph, &makers, &scope)?;
    for node in &mut graph.nodes {
        for attribute in &mut node.attributes {
            match &mut attribute.content {
                super::Content::Graph(inner) => self::graph(inner, &scope)?,
                super::Content::Graphs(inner) => inner.iter_mut().try_for_each(|inner| self::graph(inner, &scope))?,
                _ => {}
            }
        }
        scope.names.extend(node.outputs.iter().filter(|name| !name.is_empty()).cloned());
    }
    match graph.outputs.iter().find(|output| !scope.has(&output.name)) {
        Some(output) => Err(Error::corrupt(format!("nothing makes output `{}`", output.name))),
        None => Ok(()),
    }
}

/// Maps each value to the node that computes it.
fn makers(nodes: &[Node], given: &Scope<'_>) -> Result<HashMap<String, usize>> {
    let mut makers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        if node.op.is_empty() {
            return Err(Error::corrupt(format!("{} has no operator", node.label())));
        }
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            if given.has(name) || makers.insert(name.clone(), index).is_some() {
                return Err(Error::corrupt(format!("{} makes `{name}`, which is made elsewhere too", node.label())));
            }
        }
    }
    Ok(makers)
}

/// Puts nodes before their readers; an ordered graph stays as it is.
fn order(graph: &mut Graph, makers: &HashMap<String, usize>, scope: &Scope<'_>) -> Result<()> {
    let n_nodes = graph.nodes.len();
    let (mut waits, mut readers) = (vec![0usize; n_nodes], vec![Vec::new(); n_nodes]);
    let mut is_ordered = true;
    for (index, node) in graph.nodes.iter().enumerate() {
        let mut read = HashSet::new();
        reads(node, &mut HashSet::new(), &mut read);
        for name in read {
            match makers.get(name) {
                Some(&maker) => {
                    waits[index] += 1;
                    readers[maker].push(index);
                    is_ordered &= maker < index;
                }
                None if scope.has(name) => {}
                None => {
                    let message =
                        format!("{} reads `{name}`, which is neither an initialiser nor made by a node", node.label());
                    return Err(Error::corrupt(message).with_hint("the model is damaged: export it again"));
                }
            }
        }
    }
    if is_ordered {
        return Ok(());
    }
    let mut ready: VecDeque<usize> = (0..n_nodes).filter(|&index| waits[index] == 0).collect();
    let mut sorted = Vec::with_capacity(n_nodes);
    while let Some(index) = ready.pop_front() {
        sorted.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push_back(reader);
            }
        }
    }
    if let Some(index) = waits.iter().position(|&waits| waits > 0) {
        return Err(Error::corrupt(format!("the graph has a cycle through {}", graph.nodes[index].label())));
    }
    let mut nodes: Vec<Option<Node>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    graph.nodes = sorted.into_iter().filter_map(|index| nodes[index].take()).collect();
    Ok(())
}

/// Collects the outer values that a node reads, also in its subgraphs.
fn reads<'n>(node: &'n Node, hidden: &mut HashSet<&'n str>, to: &mut HashSet<&'n str>) {
    to.extend(node.inputs.iter().map(String::as_str).filter(|name| !name.is_empty() && !hidden.contains(name)));
    for graph in node.graphs() {
        let inner =
            graph.inputs.iter().map(|input| &input.name).chain(graph.initializers.iter().map(|tensor| &tensor.name));
        let inner = inner.chain(graph.nodes.iter().flat_map(|node| &node.outputs)).map(String::as_str);
        let added: Vec<&str> = inner.filter(|name| hidden.insert(name)).collect();
        graph.nodes.iter().for_each(|inner| reads(inner, hidden, to));
        to.extend(graph.outputs.iter().map(|output| output.name.as_str()).filter(|name| !hidden.contains(name)));
        for name in added {
            hidden.remove(name);
        }
    }
}
