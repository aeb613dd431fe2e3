//! Measures which nodes must stay in FP32. The sensitivity of a node is the error of the outputs
//! when only its weights are rounded to FP16.

use std::collections::BTreeSet;
use std::sync::Arc;

use half::f16;

use crate::format::Value;
use crate::onnx::{Data, Model};
use crate::{DType, Error, ErrorKind, Result};

/// Returns the nodes to keep in FP32, so that rounding the weights of all others changes no output
/// by more than `tolerance`, relative to its largest value. Keeps the most sensitive nodes first,
/// and as few as that order allows. `run` computes the outputs of a model, always with the same
/// inputs.
///
/// # Errors
/// Those of `run`, or `Check` if keeping all nodes is not enough.
pub fn keep_list(
    model: &Model,
    tolerance: f32,
    run: &dyn Fn(&Model) -> Result<Vec<Value>>,
) -> Result<BTreeSet<String>> {
    let expected = run(model)?;
    let trial = |kept: &dyn Fn(usize) -> bool| -> Result<f32> { Ok(error(&expected, &run(&rounded(model, kept))?)) };
    if trial(&|_| false)? <= tolerance {
        return Ok(BTreeSet::new());
    }
    let with_weights: Vec<usize> = (0..model.graph.nodes.len()).filter(|&at| has_weights(model, at)).collect();
    let mut ranked = Vec::new();
    for &at in &with_weights {
        ranked.push((trial(&|other| other != at)?, at));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    // The error falls with the number of kept nodes, so bisection finds the smallest number.
    let (mut low, mut high) = (1, ranked.len());
    let kept = |count: usize| ranked[..count].iter().map(|&(_, at)| at).collect::<BTreeSet<_>>();
    while low < high {
        let middle = (low + high) / 2;
        let set = kept(middle);
        if trial(&|at| set.contains(&at))? <= tolerance { high = middle } else { low = middle + 1 }
    }
    let set = kept(low.min(ranked.len()));
    if trial(&|at| set.contains(&at))? > tolerance {
        return Err(Error::new(ErrorKind::Check, format!("no list of nodes keeps the error below {tolerance}")));
    }
    let label = |at: usize| {
        let node = &model.graph.nodes[at];
        if node.name.is_empty() { node.outputs[0].clone() } else { node.name.clone() }
    };
    Ok(set.into_iter().map(label).collect())
}

/// Returns the largest difference between two sets of outputs, relative to the largest value of
/// each output. Infinite if shapes differ or an output became NaN.
pub fn error(expected: &[Value], found: &[Value]) -> f32 {
    let one = |(expected, found): (&Value, &Value)| {
        let (Ok(a), Ok(b)) = (expected.as_slice::<f32>(), found.as_slice::<f32>()) else {
            return if expected == found { 0.0 } else { f32::INFINITY };
        };
        if expected.shape() != found.shape() {
            return f32::INFINITY;
        }
        let scale = a.iter().filter(|x| x.is_finite()).fold(0f32, |most, x| most.max(x.abs())).max(f32::MIN_POSITIVE);
        let differ = |(a, b): (&f32, &f32)| {
            if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() / scale }
        };
        a.iter().zip(b).map(differ).fold(0f32, |most, x| if x.is_nan() { f32::INFINITY } else { most.max(x) })
    };
    expected.iter().zip(found).map(one).fold(0.0, f32::max)
}

fn has_weights(model: &Model, at: usize) -> bool {
    let is_weight =
        |name: &String| model.graph.initializer(name).is_some_and(|tensor| tensor.dtype == DType::F32.code());
    model.graph.nodes[at].inputs.iter().any(is_weight)
}

/// Returns the model with weights rounded to FP16 and back, except those of kept nodes.
fn rounded(model: &Model, is_kept: &dyn Fn(usize) -> bool) -> Model {
    let mut model = model.clone();
    let mut kept = BTreeSet::new();
    for (at, node) in model.graph.nodes.iter().enumerate() {
        if is_kept(at) {
            kept.extend(node.inputs.iter().cloned());
        }
    }
    for tensor in &mut model.graph.initializers {
        let Data::Bytes(bytes) = &tensor.data else { continue };
        if tensor.dtype != DType::F32.code() || kept.contains(&tensor.name) {
            continue;
        }
        let round = |&bytes: &[u8; 4]| f16::from_f32(f32::from_le_bytes(bytes)).to_f32().to_le_bytes();
        tensor.data = Data::Bytes(Arc::new(bytes.as_chunks().0.iter().flat_map(round).collect()));
    }
    model
}
