//! The shapes of a node's outputs, derived from the facts about its inputs.

mod fact;
mod layout;
mod number;
mod product;
mod recurrent;
mod reduce;
mod view;
mod window;

pub(crate) use fact::{Fact, size};

use crate::DType;
use crate::onnx::pass::DOMAIN;
use crate::onnx::{Content, Model, Node};

/// A node with the facts about its inputs; `None` for an omitted input.
pub(crate) struct Call<'a> {
    pub node: &'a Node,
    pub inputs: Vec<Option<&'a Fact>>,
    pub opset: i64,
}

/// Operators that share a shape rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Elementwise functions, and others whose output has the shape of the first input.
    Same,
    /// Elementwise functions of several inputs.
    Together,
    /// Elementwise functions of several inputs that return booleans.
    Truth,
    Other,
}

fn class(op: &str) -> Class {
    match op {
        "Abs"
        | "Acos"
        | "Acosh"
        | "Asin"
        | "Asinh"
        | "Atan"
        | "Atanh"
        | "BatchNormalization"
        | "BitCast"
        | "Ceil"
        | "Clip"
        | "Cos"
        | "Cosh"
        | "CumSum"
        | "Dropout"
        | "Elu"
        | "Erf"
        | "Exp"
        | "EyeLike"
        | "Floor"
        | "Gelu"
        | "HardSigmoid"
        | "HardSwish"
        | "Identity"
        | "InstanceNormalization"
        | "LayerNormalization"
        | "LeakyRelu"
        | "Log"
        | "LogSoftmax"
        | "LpNormalization"
        | "Neg"
        | "PRelu"
        | "RMSNormalization"
        | "RandomNormalLike"
        | "RandomUniformLike"
        | "Reciprocal"
        | "Relu"
        | "ReverseSequence"
        | "RotaryEmbedding"
        | "Round"
        | "Scatter"
        | "ScatterElements"
        | "ScatterND"
        | "Sigmoid"
        | "Sign"
        | "SimplifiedLayerNormalization"
        | "Sin"
        | "Sinh"
        | "Softmax"
        | "Softplus"
        | "Softsign"
        | "Sqrt"
        | "Swish"
        | "Tan"
        | "Tanh"
        | "Trilu"
        | "Snake"
        | "BiasGelu"
        | "FastGelu"
        | "QuickGelu"
        | "SkipLayerNormalization"
        | "SkipSimplifiedLayerNormalization" => Class::Same,
        "Add" | "Div" | "Max" | "Mean" | "Min" | "Mod" | "Mul" | "Pow" | "Sub" | "Sum" => Class::Together,
        "And" | "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Or" | "Xor" => Class::Truth,
        _ => Class::Other,
    }
}

/// Returns the outputs that the rule covers; `None` if they depend on data or no rule exists.
pub(crate) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    if !matches!(call.node.domain.as_str(), "" | "ai.onnx" | "com.microsoft") && call.node.domain != DOMAIN {
        return None;
    }
    let op = call.node.op.as_str();
    let class = class(op);
    if class == Class::Same {
        let first = call.input(0)?;
        let same = Fact::new(first.size, first.shape.clone())?;
        return one(same.with(number::unary(op, first)));
    }
    if class == Class::Together || class == Class::Truth {
        let first = call.input(0)?;
        let shape = call.inputs.iter().flatten().try_fold(Vec::new(), |shape, fact| broadcast(&shape, &fact.shape))?;
        let bytes = if class == Class::Truth { size(DType::Bool) } else { first.size };
        return one(Fact::new(bytes, shape)?.with(number::together(call)));
    }
    layout::outputs(call)
        .or_else(|| view::outputs(call))
        .or_else(|| reduce::outputs(call))
        .or_else(|| window::outputs(call))
        .or_else(|| product::outputs(call))
        .or_else(|| recurrent::outputs(call))
}

/// Returns the bytes that an operator needs besides its inputs and outputs.
pub(crate) fn scratch_bytes(call: &Call<'_>, outputs: &[Fact]) -> u64 {
    let bytes = match call.node.op.as_str() {
        "ConvTranspose" => window::scratch_bytes(call),
        "Attention" | "MultiHeadAttention" | "GroupQueryAttention" => product::score_bytes(call),
        "LSTM" | "GRU" | "DynamicQuantizeLSTM" => recurrent::gate_bytes(call),
        "DFT" | "STFT" => outputs.first().map(|output| output.bytes().saturating_mul(2)),
        _ => Some(0),
    };
    bytes.unwrap_or(0)
}

/// Returns whether the engine can write the output over an input that is not read again.
pub(crate) fn is_in_place(node: &Node) -> bool {
    let is_moved =
        matches!(node.op.as_str(), "Cast" | "Flatten" | "Not" | "Reshape" | "Squeeze" | "Transpose" | "Unsqueeze");
    is_moved || matches!(class(&node.op), Class::Same | Class::Together)
}

/// Returns the bytes that the engine needs for the output of a model's first node, whose inputs are
/// all initializers, including scratch memory; `None` if that depends on data.
pub(crate) fn constant_bytes(model: &Model) -> Option<u64> {
    let node = model.graph.nodes.first()?;
    let fact = |name: &String| match name.is_empty() {
        true => Some(None),
        false => Fact::of_tensor(model.graph.initializer(name)?).map(Some),
    };
    let facts: Vec<Option<Fact>> = node.inputs.iter().map(fact).collect::<Option<_>>()?;
    let call = Call { node, inputs: facts.iter().map(Option::as_ref).collect(), opset: model.opset("")? };
    let outputs = outputs(&call)?;
    let bytes = scratch_bytes(&call, &outputs);
    Some(outputs.iter().fold(bytes, |sum, fact| sum.saturating_add(fact.bytes())))
}

fn one(fact: Fact) -> Option<Vec<Fact>> {
    Some(vec![fact])
}

/// Returns the shape that both broadcast to.
fn broadcast(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let n_axes = a.len().max(b.len());
    let axis = |shape: &[u64], index: usize| (index + shape.len()).checked_sub(n_axes).map_or(1, |index| shape[index]);
    let joined = |index: usize| match (axis(a, index), axis(b, index)) {
        (1, other) | (other, 1) => Some(other),
        (one, other) => (one == other).then_some(one),
    };
    (0..n_axes).map(joined).collect()
}

/// Converts a computed number to a length.
fn length(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

impl<'a> Call<'a> {
    fn input(&self, index: usize) -> Option<&'a Fact> {
        self.inputs.get(index).copied().flatten()
    }

    fn numbers(&self, index: usize) -> Option<&'a [f64]> {
        self.input(index)?.numbers.as_deref()
    }

    fn int(&self, name: &str, or: i64) -> i64 {
        self.node.attribute(name).and_then(Content::int).unwrap_or(or)
    }

    fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.node.attribute(name).and_then(|content| content.ints())
    }

    /// Returns a list that is an attribute in old operators and an input in new ones.
    fn list(&self, name: &str, index: usize) -> Option<Vec<f64>> {
        match self.ints(name) {
            Some(ints) => Some(ints.iter().map(|&int| int as f64).collect()),
            None => self.numbers(index).map(<[f64]>::to_vec),
        }
    }
}

/// Resolves an axis of `n_axes`; negative ones count from the end.
fn axis(axis: i64, n_axes: usize) -> Option<usize> {
    let counted = if axis < 0 { axis.checked_add(n_axes as i64)? } else { axis };
    usize::try_from(counted).ok().filter(|&axis| axis < n_axes)
}
