//! Dynamic INT8: computes products with constant matrices in 8 bits. Each column of the matrix has
//! a scale; the scale of the other factor is computed at run time:
//! y = (Q(x) ·₈ W₈) · scale_x · scale_w.

use super::Names;
use crate::onnx::{Model, Node, Tensor};
use crate::{DType, Result};

/// Smaller matrices gain nothing.
const MIN_ELEMENTS: usize = 4096;

/// The largest weight. Processors without VNNI add two products in 16 bits, and 2 · 255 · 64 is the
/// largest sum that fits there: the result is the same on all of them.
const LARGEST: f32 = 64.0;

/// Converts `MatMul` and plain `Gemm` nodes with a constant second factor, and returns how many.
///
/// # Errors
/// The result is not a sound model, which is a bug in this pass.
pub fn to_int8(model: &mut Model) -> Result<usize> {
    let mut names = Names::of(model);
    let mut n_converted = 0;
    let mut nodes = Vec::with_capacity(model.graph.nodes.len());
    let mut tensors = Vec::new();
    for node in std::mem::take(&mut model.graph.nodes) {
        let Some(found) = matrix(&node, &model.graph.initializers) else {
            nodes.push(node);
            continue;
        };
        n_converted += 1;
        let y = &node.outputs[0];
        let mut name = |part: &str| names.fresh(&format!("{y}/{part}"));
        let [weight, scale, quantized, scale_x, zero_x, product, float, factor, scaled] =
            ["weight8", "scale", "x8", "scale_x", "zero_x", "product", "float", "factor", "scaled"].map(&mut name);
        tensors.push(Tensor::from_slice(&weight, &found.bytes, &found.shape)?);
        tensors.push(Tensor::from_slice(&scale, &found.scales, &[found.scales.len()])?);
        nodes.push(Node::new("DynamicQuantizeLinear", &[&node.inputs[0]], &[&quantized, &scale_x, &zero_x]));
        nodes.push(Node::new("MatMulInteger", &[&quantized, &weight, &zero_x], &[&product]));
        nodes.push(Node::new("Cast", &[&product], &[&float]).with("to", i64::from(DType::F32.code())));
        nodes.push(Node::new("Mul", &[&scale_x, &scale], &[&factor]));
        match node.inputs.get(2) {
            Some(bias) if node.is("Gemm") => {
                nodes.push(Node::new("Mul", &[&float, &factor], &[&scaled]));
                nodes.push(Node { name: node.name.clone(), ..Node::new("Add", &[&scaled, bias], &[y]) });
            }
            _ => nodes.push(Node { name: node.name.clone(), ..Node::new("Mul", &[&float, &factor], &[y]) }),
        }
    }
    model.graph.nodes = nodes;
    model.graph.initializers.extend(tensors);
    super::share_initializers(model);
    *model = std::mem::take(model).checked()?;
    Ok(n_converted)
}

/// A constant factor `[K, N]` in 8 bits, with one scale per column.
struct Matrix {
    shape: [usize; 2],
    bytes: Vec<i8>,
    scales: Vec<f32>,
}

fn matrix(node: &Node, initializers: &[Tensor]) -> Option<Matrix> {
    let one = |name: &str| node.attribute(name).is_none_or(|value| value.float() == Some(1.0));
    let flag = |name: &str| node.attribute(name).and_then(|value| value.int()).unwrap_or(0) == 1;
    let is_gemm = node.is("Gemm") && one("alpha") && one("beta") && !flag("transA");
    if !(node.is("MatMul") || is_gemm) {
        return None;
    }
    let tensor = initializers.iter().find(|tensor| Some(&tensor.name) == node.inputs.get(1))?;
    let (&[rows, cols], true) = (tensor.shape.as_slice(), tensor.dtype == DType::F32.code()) else { return None };
    let value = tensor.value().ok()?;
    let floats = value.as_slice::<f32>().ok()?;
    if floats.len() < MIN_ELEMENTS || !floats.iter().all(|x| x.is_finite()) {
        return None;
    }
    let [k, n] = if is_gemm && flag("transB") { [cols, rows] } else { [rows, cols] };
    let at =
        |row: usize, col: usize| if is_gemm && flag("transB") { floats[col * k + row] } else { floats[row * n + col] };
    let largest = |col: usize| (0..k).map(|row| at(row, col).abs()).fold(0f32, f32::max);
    let scales: Vec<f32> = (0..n).map(largest).map(|most| if most == 0.0 { 1.0 } else { most / LARGEST }).collect();
    let quantize =
        |row: usize, col: usize| (at(row, col) / scales[col]).round_ties_even().clamp(-LARGEST, LARGEST) as i8;
    let bytes = (0..k).flat_map(|row| (0..n).map(move |col| (row, col))).map(|(row, col)| quantize(row, col)).collect();
    Some(Matrix { shape: [k, n], bytes, scales })
}
