//! Detects what the engine does not support before it runs: all missing operators at once, and
//! values that it would change.

use std::collections::{BTreeSet, HashMap};

use crate::engine::onnxruntime;
use crate::onnx::{Content, Data, Graph, Model, Node, Tensor, ValueType};
use crate::{DType, Error, ErrorKind, Remedy, Result};

/// Operators of the ONNX domain, in alphabetical order.
const ONNX: &str = "\
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitCast \
    Cast CastLike Ceil Clip Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger ConvTranspose \
    Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp \
    Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool \
    Greater GreaterOrEqual GridSample HardSigmoid HardSwish Identity If InstanceNormalization IsInf IsNaN LSTM \
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization MatMul MatMulInteger Max \
    MaxPool Mean Min Mod Mul Multinomial Neg NonZero Not OneHot Or PRelu Pad Pow \
    QuantizeLinear RMSNormalization RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range \
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd \
    ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RotaryEmbedding Round STFT Scatter \
    ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert \
    SequenceLength Shape Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign \
    Split SplitToSequence Sqrt Squeeze Sub Sum Swish Tan Tanh Tile TopK Transpose Trilu Unsqueeze Upsample Where \
    Xor";

const MICROSOFT: &str = "\
    BiasGelu DynamicQuantizeLSTM FastGelu Gelu GroupQueryAttention MatMulNBits MultiHeadAttention QuickGelu \
    RotaryEmbedding SkipLayerNormalization SkipSimplifiedLayerNormalization";

/// Real models have fewer than ten; the engine's time grows with the square of their number.
const MAX_AXES: u64 = 1024;

/// Checks a whole model.
pub(in super::super) fn check(model: &Model) -> Result<()> {
    let mut unknown = BTreeSet::new();
    graph(&model.graph, &mut unknown)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = unknown.into_iter().collect();
    let message = format!("{}: no such operator: {}", super::NAME, names.join(", "));
    Err(Error::unsupported(message).with_hint(match onnxruntime::find() {
        Ok(_) => Remedy::use_engine("onnxruntime"),
        Err(_) => format!("ONNX Runtime may have it: {}", onnxruntime::how_to_get()).into(),
    }))
}

/// Constants of a graph, and the nodes that read each value.
struct Names<'g> {
    constants: HashMap<&'g str, &'g Tensor>,
    readers: HashMap<&'g str, Vec<&'g Node>>,
}

impl<'g> Names<'g> {
    fn of(graph: &'g Graph) -> Self {
        let mut constants: HashMap<&str, &Tensor> =
            graph.initializers.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        let mut readers: HashMap<&str, Vec<&Node>> = HashMap::new();
        for node in &graph.nodes {
            if let (true, Some(Content::Tensor(tensor)), Some(name)) =
                (node.is("Constant"), node.attribute("value"), node.outputs.first())
            {
                constants.insert(name, tensor);
            }
            for input in &node.inputs {
                readers.entry(input).or_default().push(node);
            }
        }
        Self { constants, readers }
    }

    /// Checks 64-bit integers, which the engine clamps to 32 bits. That is harmless for the end of
    /// a slice, but may not be elsewhere.
    fn check_width(&self) -> Result<()> {
        let wide = self.constants.iter().filter_map(|(&name, tensor)| Some((name, wide(tensor)?)));
        let read = |name: &str| self.readers.get(name).into_iter().flatten();
        // Ordered by name for a deterministic message.
        match wide.filter(|(name, _)| !read(name).all(|node| is_fine(node, name))).min() {
            Some((name, int)) => Err(Error::unsupported(format!(
                "{}: tensor `{name}` has {int}, which does not fit into the engine's 32 bits",
                super::NAME
            ))),
            None => Ok(()),
        }
    }
}

fn graph(graph: &Graph, unknown: &mut BTreeSet<String>) -> Result<()> {
    let names = Names::of(graph);
    names.check_width()?;
    for node in &graph.nodes {
        if !is_known(node) {
            unknown.insert(node.operator());
        } else if let Some(n_elements) = excess(node, &names) {
            let message = format!("{}: {} asks for {n_elements} elements", super::NAME, node.label());
            return Err(Error::new(ErrorKind::Memory, message));
        } else if let Some(n_axes) = n_axes(node, &names).filter(|&n_axes| n_axes > MAX_AXES) {
            let message = format!("{}: {} asks for {n_axes} axes; at most {MAX_AXES}", super::NAME, node.label());
            return Err(Error::unsupported(message));
        } else if let Some(how) = misread(node, graph) {
            unknown.insert(format!("{} {how}", node.operator()));
        }
        node.graphs().try_for_each(|inner| self::graph(inner, unknown))?;
    }
    Ok(())
}

/// Returns the number of output axes, if a constant determines it.
fn n_axes(node: &Node, names: &Names<'_>) -> Option<u64> {
    let index = match node.op.as_str() {
        "Unsqueeze" | "Reshape" | "Expand" | "Tile" => 1,
        "ConstantOfShape" => 0,
        _ => return None,
    };
    let tensor = names.constants.get(node.inputs.get(index)?.as_str())?;
    tensor.shape.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent as u64))
}

fn is_known(node: &Node) -> bool {
    match node.domain.as_str() {
        "" | "ai.onnx" => ONNX.split(' ').any(|op| op == node.op),
        "com.microsoft" => MICROSOFT.split(' ').any(|op| op == node.op),
        _ => false,
    }
}

/// Uses of an operator for which the engine deviates from the standard.
fn misread(node: &Node, graph: &Graph) -> Option<&'static str> {
    let text = |name: &str| node.attribute(name).and_then(|value| value.text());
    let has = |index: usize| node.inputs.get(index).is_some_and(|name| !name.is_empty());
    match node.op.as_str() {
        _ if text("auto_pad") == Some("SAME_LOWER") => Some("(padded below first)"),
        "Resize" if text("mode") == Some("cubic") => Some("(cubic)"),
        "Resize" if text("coordinate_transformation_mode") == Some("align_corners") && has(2) => {
            Some("(corners aligned, with scales)")
        }
        "SequenceInsert" if has(2) => Some("(at a position)"),
        "ReduceMax" | "ReduceMin" if is_bool(&node.inputs, graph) => Some("(of truth values)"),
        "Dropout" if has(2) => Some("(in training)"),
        "LSTM" | "GRU" if has(4) => Some("(of sequences with lengths)"),
        _ if is_far(node) => Some("(over more than 2^31 elements)"),
        _ => None,
    }
}

/// Returns whether a window parameter overflows the engine's 32-bit integers.
fn is_far(node: &Node) -> bool {
    let far = |name: &str| {
        let list = node.attribute(name).and_then(|value| value.ints()).unwrap_or_default();
        list.iter().any(|&value| i32::try_from(value).is_err())
    };
    ["kernel_shape", "strides", "dilations", "pads"].into_iter().any(far)
}

/// More elements than any model needs; a failed allocation would abort the process.
const MAX_ELEMENTS: f64 = (1u64 << 33) as f64;

/// Returns the number of elements that a node creates from a few constant numbers, if it is too
/// large.
fn excess(node: &Node, names: &Names<'_>) -> Option<f64> {
    let numbers = |index: usize| -> Option<Vec<f64>> {
        let value = names.constants.get(node.inputs.get(index)?.as_str())?.value().ok()?;
        match value.dtype() {
            DType::I64 => Some(value.as_slice::<i64>().ok()?.iter().map(|&x| x as f64).collect()),
            DType::I32 => Some(value.as_slice::<i32>().ok()?.iter().map(|&x| f64::from(x)).collect()),
            DType::F32 => Some(value.as_slice::<f32>().ok()?.iter().map(|&x| f64::from(x)).collect()),
            _ => None,
        }
    };
    let product = |numbers: Vec<f64>| numbers.into_iter().map(|x| x.abs().max(1.0)).product::<f64>();
    let n_elements = match node.op.as_str() {
        "ConstantOfShape" => product(numbers(0)?),
        "Expand" | "Tile" | "Upsample" => product(numbers(1)?),
        "Pad" => numbers(1)?.into_iter().fold(0.0, |most, x| x.abs().max(most)),
        "Resize" => numbers(2).map_or(0.0, product).max(numbers(3).map_or(0.0, product)),
        "OneHot" => product(numbers(1)?),
        "Range" => {
            let [start, limit, delta] =
                [0, 1, 2].map(|index| numbers(index).and_then(|numbers| numbers.first().copied()));
            ((limit? - start?) / delta?).abs()
        }
        _ => return None,
    };
    (n_elements > MAX_ELEMENTS).then_some(n_elements)
}

fn is_bool(inputs: &[String], graph: &Graph) -> bool {
    let dtype = graph.inputs.iter().find(|input| Some(&input.name) == inputs.first());
    matches!(dtype.map(|input| &input.r#type), Some(ValueType::Tensor { dtype, .. }) if *dtype == DType::Bool.code())
}

/// Returns an element that does not fit into 32 bits.
fn wide(tensor: &Tensor) -> Option<i64> {
    let Data::Bytes(bytes) = &tensor.data else { return None };
    if tensor.dtype != DType::I64.code() {
        return None;
    }
    let mut ints = bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
    ints.find(|&int| i32::try_from(int).is_err())
}

/// Returns whether a node that reads `name` works with the clamped value.
fn is_fine(node: &Node, name: &str) -> bool {
    let at = |index: usize| node.inputs.get(index).is_some_and(|input| input == name);
    !node.inputs.iter().any(|input| input == name) || (node.is("Slice") && (at(1) || at(2)))
}
