//! What the engine reads otherwise than the standard says, written so that both mean the same.

use std::collections::{HashMap, HashSet};

use crate::Result;
use crate::optimize::onnx::{Content, Graph, Model, Node, Tensor};

/// A model with the same meaning for the engine.
pub(in super::super) fn adapted(model: &Model) -> Result<Model> {
    let mut model = model.clone();
    graph(&mut model.graph, &mut Known::default())?;
    Ok(model)
}

/// What is known of values, in the graphs around as well.
#[derive(Default)]
struct Known {
    /// Names that are taken.
    names: HashSet<String>,
    /// The axes of constants.
    n_axes: HashMap<String, usize>,
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
    let mut fresh = |base: &str| {
        let names = (1..).map(|n| format!("{base}/{n}"));
        names.into_iter().find(|name| taken.insert(name.clone())).unwrap_or_default()
    };
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    let mut zero = None;
    for mut node in std::mem::take(&mut graph.nodes) {
        if node.name.is_empty() {
            // The engine names it in its errors.
            node.name = node.label();
        }
        let has_one_input = node.inputs.len() == 1 && node.outputs.len() == 1;
        if (node.is("ArgMax") || node.is("ArgMin")) && has_one_input {
            node = first_of_equals(node, &mut fresh, (&mut nodes, &mut graph.initializers))?;
        } else if node.is("Sign") && has_one_input {
            // Its sign of zero is one.
            let zero = match &zero {
                Some(name) => String::clone(name),
                None => {
                    let name = fresh("zero");
                    graph.initializers.push(Tensor::from_slice(&name, &[0f32], &[])?);
                    zero.insert(name).clone()
                }
            };
            let (x, y) = (node.inputs[0].clone(), node.outputs[0].clone());
            let (is_zero, sign) = (fresh(&y), fresh(&y));
            nodes.push(Node::new("Equal", &[&x, &zero], &[&is_zero]));
            nodes.push(Node { outputs: vec![sign.clone()], ..node });
            node = Node::new("Where", &[&is_zero, &x, &sign], &[&y]);
        } else {
            fill_defaults(&mut node, &known.n_axes);
        }
        nodes.push(node);
    }
    graph.nodes = nodes;
    for attribute in graph.nodes.iter_mut().flat_map(|node| &mut node.attributes) {
        match &mut attribute.content {
            Content::Graph(inner) => self::graph(inner, known)?,
            Content::Graphs(graphs) => graphs.iter_mut().try_for_each(|inner| self::graph(inner, known))?,
            _ => {}
        }
    }
    Ok(())
}

/// Of equal values the engine's place is the last; the standard's is the first, unless the last is asked for. The first is the
/// last of the values in reverse order, counted from the end.
fn first_of_equals(
    mut node: Node,
    fresh: &mut impl FnMut(&str) -> String,
    (nodes, tensors): (&mut Vec<Node>, &mut Vec<Tensor>),
) -> Result<Node> {
    let takes_last = node.attribute("select_last_index").is_some_and(|value| value.int() == Some(1));
    node.attributes.retain(|attribute| attribute.name != "select_last_index");
    if takes_last {
        return Ok(node);
    }
    let axis = node.attribute("axis").and_then(|axis| axis.int()).unwrap_or(0);
    let (x, y) = (node.inputs[0].clone(), node.outputs[0].clone());
    let [back, end, axes, one, reversed, place, shape, len, last] = [(); 9].map(|()| fresh(&y));
    for (name, value) in [(&back, -1i64), (&end, i64::from(-i32::MAX)), (&axes, axis), (&one, 1)] {
        tensors.push(Tensor::from_slice(name, &[value], &[1])?);
    }
    nodes.push(Node::new("Slice", &[&x, &back, &end, &axes, &back], &[&reversed]));
    nodes.push(Node { inputs: vec![reversed], outputs: vec![place.clone()], ..node });
    nodes.push(Node::new("Shape", &[&x], &[&shape]));
    nodes.push(Node::new("Gather", &[&shape, &axes], &[&len]));
    nodes.push(Node::new("Sub", &[&len, &one], &[&last]));
    // A scalar, so that the result keeps the shape of the place.
    let scalar = fresh(&y);
    let none = fresh(&y);
    tensors.push(Tensor::from_slice::<i64>(&none, &[], &[0])?);
    nodes.push(Node::new("Reshape", &[&last, &none], &[&scalar]));
    Ok(Node::new("Sub", &[&scalar, &place], &[&y]))
}

/// Where a list is left out, the engine takes it for two axes; padding that is none by name it does not know for them.
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
