//! Computes constants in the embedded engine before a model runs.

use super::build;
use crate::engine::{Engine, Options};
use crate::format::Value;
use crate::onnx::Model;
use crate::onnx::shape::constant_bytes;

/// Returns the output of a one-node model whose inputs are all initializers; `None` if the engine
/// rejects it, or if its output may exceed `most_bytes`.
pub fn evaluate(model: &Model, most_bytes: u64) -> Option<Value> {
    // Checked before computing: a few bytes of a model can request any amount of memory.
    constant_bytes(model).filter(|bytes| *bytes <= most_bytes)?;
    let value = build(model, &Options::default()).ok()?.run(&[]).ok()?.pop()?;
    (value.bytes().len() as u64 <= most_bytes).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::onnx::{Graph, Node, Opset, Tensor, ValueInfo, ValueType};

    #[test]
    fn a_constant_may_have_as_many_bytes_as_are_allowed() {
        let r#type = ValueType::Tensor { dtype: DType::F32.code(), shape: None };
        let graph = Graph {
            nodes: vec![Node::new("Neg", &["w"], &["y"])],
            initializers: vec![Tensor::from_slice("w", &[1.0f32, -2.0, 3.0], &[3]).unwrap()],
            outputs: vec![ValueInfo { name: "y".to_owned(), r#type, rest: vec![] }],
            ..Graph::default()
        };
        let opsets = vec![Opset { domain: String::new(), version: 17 }];
        let model = Model { ir_version: 8, opsets, graph, rest: vec![] };
        assert_eq!(evaluate(&model, 12).unwrap().as_slice::<f32>().unwrap(), [-1.0, 2.0, -3.0]);
        assert!(evaluate(&model, 11).is_none());
    }
}
