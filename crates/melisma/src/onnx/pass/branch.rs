//! Branch inlining: replaces an `If` with a constant condition by the nodes of the chosen branch.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Names, dead};
use crate::Result;
use crate::onnx::{Content, Data, Graph, Model, Node, Tensor};

/// Replaces each `If` with a constant condition by its branch, including nested ones, and returns
/// how many.
///
/// # Errors
/// The result is not a sound model, which is a bug in this pass.
pub fn inline_branches(model: &mut Model) -> Result<usize> {
    let mut names = Names::of(model);
    let graph = &mut model.graph;
    // An input with a default can be overridden.
    let inputs: HashSet<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    let fixed = graph.initializers.iter().filter(|tensor| !inputs.contains(tensor.name.as_str()));
    let mut conditions: HashMap<String, bool> = fixed.filter_map(condition).collect();
    let mut left: VecDeque<Node> = std::mem::take(&mut graph.nodes).into();
    let mut n_inlined = 0;
    while let Some(node) = left.pop_front() {
        let Some(branch) = decided(&node, &conditions) else {
            graph.nodes.push(node);
            continue;
        };
        let inlined = inlined(&node, branch, &mut names);
        conditions.extend(inlined.initializers.iter().filter_map(condition));
        graph.initializers.extend(inlined.initializers);
        inlined.nodes.into_iter().rev().for_each(|node| left.push_front(node));
        n_inlined += 1;
    }
    if n_inlined > 0 {
        *model = std::mem::take(model).checked()?;
    }
    Ok(n_inlined)
}

/// Returns the name and value of a constant that can be a condition.
fn condition(tensor: &Tensor) -> Option<(String, bool)> {
    match &tensor.data {
        Data::Bytes(bytes) if bytes.len() == 1 => Some((tensor.name.clone(), bytes[0] != 0)),
        _ => None,
    }
}

/// Returns the branch of an `If` whose condition is known.
fn decided(node: &Node, conditions: &HashMap<String, bool>) -> Option<Graph> {
    let holds = *conditions.get(node.inputs.first().filter(|_| node.is("If"))?)?;
    match node.attribute(if holds { "then_branch" } else { "else_branch" })? {
        Content::Graph(branch) if branch.inputs.is_empty() && branch.outputs.len() >= node.outputs.len() => {
            Some(branch.as_ref().clone())
        }
        _ => None,
    }
}

/// Renames the branch's values to unique names and connects its outputs to those of the node.
fn inlined(node: &Node, mut branch: Graph, names: &mut Names) -> Graph {
    let own = branch.initializers.iter().map(|tensor| &tensor.name);
    let own = own.chain(branch.nodes.iter().flat_map(|node| &node.outputs)).filter(|name| !name.is_empty());
    let fresh: HashMap<String, String> = own.map(|name| (name.clone(), names.fresh(name))).collect();
    dead::rename(&mut branch, &fresh);
    let renamed = |name: &String| fresh.get(name).unwrap_or(name).clone();
    branch.initializers.iter_mut().for_each(|tensor| tensor.name = renamed(&tensor.name));
    for output in branch.nodes.iter_mut().flat_map(|node| &mut node.outputs) {
        *output = renamed(output);
    }
    for (from, to) in branch.outputs.iter().zip(&node.outputs).filter(|(_, to)| !to.is_empty()) {
        branch.nodes.push(Node::new("Identity", &[&renamed(&from.name)], &[to]));
    }
    branch
}
