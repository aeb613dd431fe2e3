//! Branches that are decided: an `If` whose condition is constant becomes the nodes of the branch that it takes.

use std::collections::{HashMap, HashSet};

use super::{Names, dead};
use crate::Result;
use crate::optimize::onnx::{Content, Graph, Model, Node};

/// Puts decided branches in place of their nodes, also those that lie in them, and says how many.
///
/// # Errors
/// The result is no sound model, which would be a fault of this pass.
pub fn inline_branches(model: &mut Model) -> Result<usize> {
    let mut names = Names::of(model);
    let mut n_inlined = 0;
    while let Some((index, branch)) = decided(&model.graph) {
        let node = model.graph.nodes.remove(index);
        let inlined = inlined(&node, branch, &mut names);
        model.graph.initializers.extend(inlined.initializers);
        model.graph.nodes.splice(index..index, inlined.nodes);
        n_inlined += 1;
    }
    if n_inlined > 0 {
        *model = std::mem::take(model).checked()?;
    }
    Ok(n_inlined)
}

/// The first `If` whose condition is known, and the branch that it takes.
fn decided(graph: &Graph) -> Option<(usize, Graph)> {
    let inputs: HashSet<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    graph.nodes.iter().enumerate().filter(|(_, node)| node.is("If")).find_map(|(index, node)| {
        // An input with a default may be given another value.
        let name = node.inputs.first().filter(|name| !inputs.contains(name.as_str()))?;
        let value = graph.initializer(name)?.value().ok()?;
        let &[condition] = value.bytes() else { return None };
        let taken = if condition != 0 { "then_branch" } else { "else_branch" };
        match node.attribute(taken)? {
            Content::Graph(branch) if branch.inputs.is_empty() && branch.outputs.len() >= node.outputs.len() => {
                Some((index, branch.as_ref().clone()))
            }
            _ => None,
        }
    })
}

/// The branch with names of its own, and the node's outputs at its end.
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
