//! Element types of values, as far as the operators determine them.

use std::collections::HashMap;

use crate::DType;
use crate::onnx::{Content, Model, Node, ValueType};

/// Returns the element type of a node's first output, if its first input has type number `first`.
pub(super) fn output(node: &Node, first: i32) -> Option<i32> {
    Some(match node.op.as_str() {
        "Shape" | "Size" | "NonZero" | "ArgMax" | "ArgMin" | "NonMaxSuppression" => DType::I64.code(),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "IsNaN" | "IsInf" => DType::Bool.code(),
        "Cast" => i32::try_from(node.attribute("to")?.int()?).ok()?,
        "ConstantOfShape" => match node.attribute("value") {
            Some(Content::Tensor(tensor)) => tensor.dtype,
            _ => DType::F32.code(),
        },
        "QuantizeLinear" | "DynamicQuantizeLinear" => DType::U8.code(),
        "MatMulInteger" | "ConvInteger" => DType::I32.code(),
        "DequantizeLinear" | "CastLike" | "Where" | "OneHot" | "EyeLike" | "Optional" => return None,
        _ => first,
    })
}

/// Returns the types of all values in the outer graph that follow from inputs and initializers.
/// Missing entries are unknown.
pub(super) fn all(model: &Model) -> HashMap<String, i32> {
    let graph = &model.graph;
    let mut kinds: HashMap<String, i32> =
        graph.initializers.iter().map(|tensor| (tensor.name.clone(), tensor.dtype)).collect();
    for value in graph.inputs.iter().chain(&graph.infos).chain(&graph.outputs) {
        if let ValueType::Tensor { dtype, .. } = value.r#type {
            kinds.insert(value.name.clone(), dtype);
        }
    }
    for node in &graph.nodes {
        let of = |index: usize| node.inputs.get(index).and_then(|name| kinds.get(name)).copied();
        let first = match node.op.as_str() {
            "Where" => of(1),
            "DequantizeLinear" | "CastLike" => of(1),
            "OneHot" => of(2),
            "Constant" => match node.attribute("value") {
                Some(Content::Tensor(tensor)) => Some(tensor.dtype),
                _ => None,
            },
            "If" | "Loop" | "Scan" => None,
            _ => of(0).and_then(|first| output(node, first)),
        };
        for (index, name) in node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let kind = match (node.op.as_str(), index) {
                ("TopK" | "MaxPool", 1) => Some(DType::I64.code()),
                ("DynamicQuantizeLinear", 1) => Some(DType::F32.code()),
                ("DynamicQuantizeLinear", 2) => Some(DType::U8.code()),
                _ => first,
            };
            if let Some(kind) = kind {
                kinds.entry(name.clone()).or_insert(kind);
            }
        }
    }
    kinds
}
