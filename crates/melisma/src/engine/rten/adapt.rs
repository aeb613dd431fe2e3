//! Rewrites the parts that the engine interprets differently from the standard, so that both agree.

use std::collections::{HashMap, HashSet};

use super::rewrite::Rewrite;
use crate::onnx::{Content, Graph, Model, Node};
use crate::{DType, Result};

/// Returns a model that means the same to the engine.
pub(in super::super) fn adapted(mut model: Model) -> Result<Model> {
    let is_old = model.opset("").is_some_and(|version| version < 13);
    graph(&mut model.graph, &mut Known { is_old, ..Known::default() })?;
    Ok(model)
}

/// Known facts about values, including those of surrounding graphs.
#[derive(Default)]
struct Known {
    /// Names in use.
    names: HashSet<String>,
    /// Number of axes of constants.
    n_axes: HashMap<String, usize>,
    /// Whether the opset is older than version 13.
    is_old: bool,
}

fn graph(graph: &mut Graph, known: &mut Known) -> Result<()> {
    known.n_axes.extend(graph.initializers.iter().map(|tensor| (tensor.name.clone(), tensor.shape.len())));
    for node in graph.nodes.iter().filter(|node| node.is("Constant")) {
        if let (Some(name), Some(Content::Tensor(tensor))) = (node.outputs.first(), node.attribute("value")) {
            known.n_axes.insert(name.clone(), tensor.shape.len());
        }
    }
    let taken = &mut known.names;
    taken.extend(graph.nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs)).cloned());
    taken.extend(graph.initializers.iter().map(|tensor| tensor.name.clone()));
    let mut rewrite = Rewrite { nodes: Vec::with_capacity(graph.nodes.len()), tensors: Vec::new(), taken };
    for mut node in std::mem::take(&mut graph.nodes) {
        if node.name.is_empty() {
            // The engine uses this name in its errors.
            node.name = node.label();
        }
        let is = |op: &str| node.is(op) && node.inputs.len() == 1 && node.outputs.len() == 1;
        node = if is("ArgMax") || is("ArgMin") {
            rewrite.first_of_equals(node)?
        } else if is("Sign") {
            rewrite.sign(node)?
        } else if (is("Softmax") || is("LogSoftmax")) && known.is_old {
            rewrite.old_softmax(node)
        } else if is("Softplus") {
            rewrite.softplus(node)?
        } else if is("Cast") && node.attribute("to").and_then(Content::int) == Some(DType::Bool.code().into()) {
            rewrite.truth(node)?
        } else {
            fill_defaults(&mut node, &known.n_axes);
            node
        };
        rewrite.nodes.push(node);
    }
    let Rewrite { nodes, tensors, .. } = rewrite;
    graph.nodes = nodes;
    graph.initializers.extend(tensors);
    for attribute in graph.nodes.iter_mut().flat_map(|node| &mut node.attributes) {
        match &mut attribute.content {
            Content::Graph(inner) => self::graph(inner, known)?,
            Content::Graphs(graphs) => graphs.iter_mut().try_for_each(|inner| self::graph(inner, known))?,
            _ => {}
        }
    }
    Ok(())
}

/// Writes out omitted lists, for which the engine assumes two axes, and replaces `VALID` padding.
fn fill_defaults(node: &mut Node, n_axes: &HashMap<String, usize>) {
    let is_window = ["Conv", "ConvTranspose", "ConvInteger", "MaxPool", "AveragePool"].iter().any(|op| node.is(op));
    if !is_window {
        return;
    }
    let kernel = node.attribute("kernel_shape").and_then(|kernel| kernel.ints()).map(<[i64]>::len);
    let weight = node.inputs.get(1).and_then(|name| n_axes.get(name)?.checked_sub(2));
    let Some(n_axes) = kernel.or(weight) else { return };
    if node.attribute("auto_pad").is_some_and(|value| value.text() == Some("VALID")) {
        node.attributes.retain(|attribute| !matches!(attribute.name.as_str(), "auto_pad" | "pads"));
    }
    let is_automatic = node.attribute("auto_pad").is_some_and(|value| value.text() != Some("NOTSET"));
    let lists = [("strides", 1, n_axes), ("dilations", 1, n_axes), ("pads", 0, 2 * n_axes)];
    for (name, value, len) in lists {
        let is_wanted = (name != "pads" || !is_automatic) && (name != "dilations" || node.op != "AveragePool");
        if is_wanted && node.attribute(name).is_none() {
            *node = std::mem::take(node).with(name, vec![value; len]);
        }
    }
}
