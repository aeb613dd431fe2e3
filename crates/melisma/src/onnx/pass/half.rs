//! FP16 conversion: weights and intermediate values become halves, inputs and outputs keep their
//! types, and listed nodes stay in FP32.
//!
//! The casts are part of the graph, so every engine and every version of TensorRT behaves the same.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use half::f16;

use super::{Names, kind};
use crate::onnx::{Data, Model, Node, Tensor};
use crate::{DType, Error, Result};

/// Operators that lose too much in FP16, whose types must not change, or that engines support only
/// in FP32.
const ALWAYS_FP32: [&str; 22] = [
    "Resize",
    "Upsample",
    "If",
    "Loop",
    "Scan",
    "LSTM",
    "GRU",
    "RNN",
    "TopK",
    "NonMaxSuppression",
    "CumSum",
    "Range",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "STFT",
    "DFT",
    "MelWeightMatrix",
    "DynamicQuantizeLinear",
    "QuantizeLinear",
];

/// Converts a model; `keep` names the nodes, or their first outputs, that stay in FP32.
///
/// # Errors
/// `Unsupported` for a weight above 65,504, the largest FP16 value.
pub fn to_half(model: &mut Model, keep: &BTreeSet<String>) -> Result<()> {
    let kinds = kind::all(model);
    let is_float = |name: &str| kinds.get(name) == Some(&DType::F32.code());
    let mut names = Names::of(model);
    let mut state = State { as_half: HashMap::new(), as_full: HashMap::new(), tensors: Vec::new() };
    for input in &model.graph.inputs {
        state.as_full.insert(input.name.clone(), input.name.clone());
    }
    let weights: HashMap<String, Tensor> = model
        .graph
        .initializers
        .iter()
        .filter(|tensor| tensor.dtype == DType::F32.code())
        .map(|tensor| (tensor.name.clone(), tensor.clone()))
        .collect();
    // Subgraphs are not converted, so values that they read keep their type.
    let captured: HashSet<String> = {
        let inner = model.graph.nodes.iter().flat_map(Node::graphs).flat_map(|graph| super::reads(graph).into_keys());
        inner.map(str::to_owned).collect()
    };
    let mut nodes = Vec::new();
    for mut node in std::mem::take(&mut model.graph.nodes) {
        let label = if node.name.is_empty() { node.outputs.first() } else { Some(&node.name) };
        let is_kept = label.is_some_and(|label| keep.contains(label))
            || is_full(&node)
            || node.outputs.iter().any(|output| captured.contains(output));
        let is_plain = node.op == "Cast" || node.graphs().next().is_some();
        for input in &mut node.inputs {
            if !is_float(input) || input.is_empty() {
                continue;
            }
            *input = if is_kept || is_plain {
                state.full(input, &mut names, &mut nodes)
            } else {
                state.half(input, &weights, &mut names, &mut nodes)?
            };
        }
        for output in node.outputs.iter().filter(|name| is_float(name)) {
            let side = if is_kept || is_plain { &mut state.as_full } else { &mut state.as_half };
            side.insert(output.clone(), output.clone());
        }
        nodes.push(node);
    }
    // A cast restores the name of an output computed in FP16.
    for output in &model.graph.outputs {
        if state.as_full.contains_key(&output.name) || !state.as_half.contains_key(&output.name) {
            continue;
        }
        let inner = names.fresh(&format!("{}/half", output.name));
        for name in nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs)) {
            if *name == output.name {
                name.clone_from(&inner);
            }
        }
        nodes.push(cast(&inner, &output.name, DType::F32));
    }
    model.graph.nodes = nodes;
    model.graph.infos.clear();
    model.graph.initializers.extend(state.tensors);
    super::share_initializers(model);
    *model = std::mem::take(model).checked()?;
    Ok(())
}

fn is_full(node: &Node) -> bool {
    ALWAYS_FP32.contains(&node.op.as_str()) || !matches!(node.domain.as_str(), "" | "ai.onnx" | super::DOMAIN)
}

/// The names of a value in both formats.
struct State {
    as_half: HashMap<String, String>,
    as_full: HashMap<String, String>,
    tensors: Vec<Tensor>,
}

impl State {
    fn half(
        &mut self,
        name: &str,
        weights: &HashMap<String, Tensor>,
        names: &mut Names,
        nodes: &mut Vec<Node>,
    ) -> Result<String> {
        if let Some(known) = self.as_half.get(name) {
            return Ok(known.clone());
        }
        let new = names.fresh(&format!("{name}/half"));
        match weights.get(name) {
            Some(tensor) => self.tensors.push(Tensor { name: new.clone(), ..rounded(tensor)? }),
            None => nodes.push(cast(name, &new, DType::F16)),
        }
        self.as_half.insert(name.to_owned(), new.clone());
        Ok(new)
    }

    fn full(&mut self, name: &str, names: &mut Names, nodes: &mut Vec<Node>) -> String {
        if let Some(known) = self.as_full.get(name) {
            return known.clone();
        }
        // Only values that are stored in FP16 need a cast.
        let Some(half) = self.as_half.get(name).filter(|half| *half == name) else { return name.to_owned() };
        let new = names.fresh(&format!("{name}/full"));
        nodes.push(cast(half, &new, DType::F32));
        self.as_full.insert(name.to_owned(), new.clone());
        new
    }
}

fn cast(from: &str, to: &str, dtype: DType) -> Node {
    Node::new("Cast", &[from], &[to]).with("to", i64::from(dtype.code()))
}

fn rounded(tensor: &Tensor) -> Result<Tensor> {
    let value = tensor.value()?;
    let round = |&x: &f32| {
        let half = f16::from_f32(x);
        let overflows = half.is_infinite() && x.is_finite();
        if overflows {
            Err(Error::unsupported(format!("tensor `{}`: {x} does not fit into FP16", tensor.name)))
        } else {
            Ok(half)
        }
    };
    let halves = value.as_slice::<f32>()?.iter().map(round).collect::<Result<Vec<_>>>()?;
    let bytes = bytemuck::cast_slice(&halves).to_vec();
    Ok(Tensor { dtype: DType::F16.code(), data: Data::Bytes(Arc::new(bytes)), ..tensor.clone() })
}
