//! Constant folding: computes nodes with only constant inputs once, in an engine that the caller
//! provides.

use std::collections::{HashMap, HashSet};

use super::reads;
use crate::format::Value;
use crate::onnx::{Content, Graph, Model, Node, Opset, Tensor, ValueInfo, ValueType};
use crate::{DType, Result};

/// Larger results are not folded: they would only make the file grow.
const MAX_BYTES: usize = 64 << 20;
/// Limit on the bytes of all results together.
const MAX_TOTAL_BYTES: usize = 256 << 20;

/// Computes the output of a one-node model whose inputs are all initializers. Returns `None` if it
/// cannot, or if the output may exceed the given number of bytes.
pub type Evaluate<'a> = &'a dyn Fn(&Model, u64) -> Option<Value>;

/// Folds constants, also in subgraphs, and returns the number of removed nodes. Nodes stay if
/// `evaluate` rejects them, if they draw random numbers or have subgraphs, or if their result is
/// large.
///
/// # Errors
/// The result is not a sound model, which is a bug in this pass.
pub fn fold_constants(model: &mut Model, evaluate: Evaluate<'_>) -> Result<usize> {
    let language = Language { ir_version: model.ir_version, opsets: model.opsets.clone(), evaluate };
    let folded = fold(&mut model.graph, &language);
    *model = std::mem::take(model).checked()?;
    Ok(folded)
}

/// The operator sets of the model, and the function that evaluates its nodes.
struct Language<'e> {
    ir_version: i64,
    opsets: Vec<Opset>,
    evaluate: Evaluate<'e>,
}

fn fold(graph: &mut Graph, language: &Language<'_>) -> usize {
    let before = graph.nodes.len();
    name_constants(graph);
    // An input with a default can be overridden.
    let inputs: HashSet<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    // Graph outputs stay outputs of nodes: not every engine accepts a constant there.
    let outputs: HashSet<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
    let fixed = graph.initializers.iter().filter(|tensor| !inputs.contains(tensor.name.as_str()));
    let mut known: HashMap<String, Tensor> = fixed.map(|tensor| (tensor.name.clone(), tensor.clone())).collect();
    let (mut made, mut left) = (Vec::new(), MAX_TOTAL_BYTES);
    // Nodes precede their readers, so one pass finds all.
    for node in std::mem::take(&mut graph.nodes) {
        let is_ready = is_pure(&node)
            && !node.outputs.iter().any(|name| outputs.contains(name.as_str()))
            && !node.inputs.is_empty()
            && node.inputs.iter().all(|name| name.is_empty() || known.contains_key(name));
        match is_ready.then(|| run(&known, language, &node, left)).flatten() {
            Some(tensor) => {
                left -= tensor.byte_len();
                known.insert(tensor.name.clone(), tensor.clone());
                made.push(tensor);
            }
            None => graph.nodes.push(node),
        }
    }
    graph.initializers.extend(made);
    drop_unread(graph);
    let mut folded = before - graph.nodes.len();
    for attribute in graph.nodes.iter_mut().flat_map(|node| &mut node.attributes) {
        match &mut attribute.content {
            Content::Graph(inner) => folded += fold(inner, language),
            Content::Graphs(graphs) => folded += graphs.iter_mut().map(|inner| fold(inner, language)).sum::<usize>(),
            _ => {}
        }
    }
    folded
}

/// Turns `Constant` nodes with a tensor into initializers.
fn name_constants(graph: &mut Graph) {
    let mut tensors = Vec::new();
    graph.nodes.retain(|node| {
        let (true, Some(name)) = (node.is("Constant"), node.outputs.first()) else { return true };
        if graph.outputs.iter().any(|output| output.name == *name) {
            return true;
        }
        let tensor = match node.attributes.first().map(|attribute| (attribute.name.as_str(), &attribute.content)) {
            Some(("value", Content::Tensor(tensor))) => Some(Tensor { name: name.clone(), ..tensor.clone() }),
            Some(("value_float", Content::Float(value))) => Tensor::from_slice(name, &[*value], &[]).ok(),
            Some(("value_int", Content::Int(value))) => Tensor::from_slice(name, &[*value], &[]).ok(),
            Some(("value_floats", Content::Floats(values))) => Tensor::from_slice(name, values, &[values.len()]).ok(),
            Some(("value_ints", Content::Ints(values))) => Tensor::from_slice(name, values, &[values.len()]).ok(),
            _ => None,
        };
        let stays = tensor.is_none();
        tensors.extend(tensor);
        stays
    });
    graph.initializers.extend(tensors);
}

fn drop_unread(graph: &mut Graph) {
    let counts: HashSet<String> = reads(graph).into_keys().map(str::to_owned).collect();
    let inputs: HashSet<String> = graph.inputs.iter().map(|input| input.name.clone()).collect();
    graph.initializers.retain(|tensor| counts.contains(&tensor.name) || inputs.contains(&tensor.name));
}

fn is_pure(node: &Node) -> bool {
    let is_random =
        node.op.starts_with("Random") || matches!(node.op.as_str(), "Multinomial" | "Bernoulli" | "Dropout");
    !is_random
        && node.graphs().next().is_none()
        && matches!(node.domain.as_str(), "" | "ai.onnx")
        && node.rest.is_empty()
}

/// Returns the output of one node, if it has at most `most` bytes.
fn run(known: &HashMap<String, Tensor>, language: &Language<'_>, node: &Node, most: usize) -> Option<Tensor> {
    if node.outputs.len() != 1 || node.outputs[0].is_empty() {
        return None;
    }
    let named = node.inputs.iter().filter(|name| !name.is_empty());
    let initializers: Vec<Tensor> = named.map(|name| known.get(name).cloned()).collect::<Option<_>>()?;
    let dtype = super::kind::output(node, initializers.first().map(|tensor| tensor.dtype)?)?;
    // Types that the engine would widen or narrow are left alone.
    let exact = |code: i32| {
        matches!(DType::from_code(code), Ok(DType::F32 | DType::I32 | DType::I64 | DType::I8 | DType::U8 | DType::Bool))
    };
    if !exact(dtype) || !initializers.iter().all(|tensor| exact(tensor.dtype) && tensor.byte_len() <= MAX_BYTES) {
        return None;
    }
    if !fits_32_bits(node, dtype, &initializers) {
        return None;
    }
    let output =
        ValueInfo { name: node.outputs[0].clone(), r#type: ValueType::Tensor { dtype, shape: None }, rest: Vec::new() };
    let mut seen = HashSet::new();
    let alone = Graph {
        nodes: vec![node.clone()],
        initializers: initializers.into_iter().filter(|tensor| seen.insert(tensor.name.clone())).collect(),
        outputs: vec![output],
        ..Graph::default()
    };
    let Language { ir_version, opsets, evaluate } = language;
    let alone = Model { ir_version: *ir_version, opsets: opsets.clone(), graph: alone, rest: Vec::new() };
    let value = evaluate(&alone, most.min(MAX_BYTES) as u64)?;
    Some(Tensor::new(&node.outputs[0], &value))
}

/// Operators that only move values.
const MOVES: [&str; 14] = [
    "Concat",
    "ConstantOfShape",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Shape",
    "Size",
    "Slice",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];
/// Operators whose results fit into 32 bits if their inputs fit into 16.
const SMALL: [&str; 14] = [
    "Abs",
    "Add",
    "Cast",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Sub",
];

/// Returns whether the engine's 32-bit arithmetic gives the 64-bit result.
fn fits_32_bits(node: &Node, output: i32, inputs: &[Tensor]) -> bool {
    let wide = DType::I64.code();
    if (output != wide && inputs.iter().all(|input| input.dtype != wide)) || MOVES.contains(&node.op.as_str()) {
        return true;
    }
    let is_small = |input: &Tensor| {
        let Ok(value) = input.value() else { return false };
        match value.dtype() {
            DType::I64 => value.as_slice::<i64>().is_ok_and(|ints| ints.iter().all(|&x| i16::try_from(x).is_ok())),
            DType::F32 => value.as_slice::<f32>().is_ok_and(|floats| floats.iter().all(|x| x.abs() < 32_768.0)),
            DType::I32 => value.as_slice::<i32>().is_ok_and(|ints| ints.iter().all(|&x| i16::try_from(x).is_ok())),
            _ => true,
        }
    };
    SMALL.contains(&node.op.as_str()) && inputs.iter().all(is_small)
}
