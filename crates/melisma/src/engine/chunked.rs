//! Runs any engine on a long signal in pieces. Each piece includes as much of its neighbours as its
//! outputs depend on. Memory then grows with the piece, not with the signal; the result equals that
//! of the whole signal within rounding.
//!
//! This requires that every node looks at a limited stretch of time: convolutions that preserve the
//! length, transposed convolutions that multiply it, and elementwise functions. [`Reach::of`]
//! computes the stretch, or names a node that looks further.

use std::collections::HashMap;

use super::{Engine, EngineName, Operator, Port, Ports, check_inputs};
use crate::format::Value;
use crate::onnx::pass::DOMAIN;
use crate::onnx::{Graph, Model, Node};
use crate::{Error, Result};

/// The inputs that an output depends on, along the last axis of the input `[B, C, T]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Number of inputs on each side.
    pub latents: usize,
    /// Outputs per input.
    pub rate: usize,
}

/// Operators on single values, or on values at the same time.
const LOCAL: &str = "Abs Add Cast Ceil Clip Cos Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log Max Min Mul \
    Neg PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub Sum Tan Tanh";

impl Reach {
    /// Returns the reach of a model with one input and one output, both `[B, C, T]`.
    ///
    /// # Errors
    /// `Unsupported` names a node that looks at more than a stretch of time, or changes the length
    /// in another way.
    pub fn of(model: &Model) -> Result<Self> {
        let graph = &model.graph;
        let inputs = Port::inputs(model)?;
        let ([input], [output]) = (inputs.as_slice(), graph.outputs.as_slice()) else {
            return Err(Error::unsupported("in pieces: a model with more than one input or output"));
        };
        if input.shape.as_ref().is_none_or(|axes| axes.len() != 3) {
            return Err(Error::unsupported(format!("in pieces: input `{}` does not have three axes", input.name)));
        }
        // Rows per latent, and the reach in latents. Constants are omitted.
        let mut known: HashMap<&str, (usize, f64)> = HashMap::from([(input.name.as_str(), (1, 0.0))]);
        for node in &graph.nodes {
            let place = |error: Error| error.at(format!("in pieces: {}", node.label()));
            let moving: Vec<(usize, f64)> =
                node.inputs.iter().filter_map(|name| known.get(name.as_str()).copied()).collect();
            let Some(&(rate, _)) = moving.first() else {
                let flat = node.inputs.iter().all(|name| name.is_empty() || graph.initializer(name).is_some());
                if flat {
                    continue;
                }
                return Err(place(Error::unsupported("depends on something else than the input")));
            };
            let reach = moving.iter().map(|(_, reach)| *reach).fold(0.0, f64::max);
            let after = step(node, graph, (rate, &moving)).map_err(place)?;
            let after = (after.0, reach + after.1);
            known.extend(node.outputs.first().map(|name| (name.as_str(), after)));
        }
        match known.get(output.name.as_str()) {
            Some(&(rate, reach)) if reach < 1e9 => Ok(Self { latents: reach.ceil() as usize, rate }),
            _ => Err(Error::unsupported("in pieces: the output does not follow from the input")),
        }
    }
}

/// Returns the rate after a node, and the node's reach in latents. `rate` is that of the first of the inputs that move.
fn step(node: &Node, graph: &Graph, (rate, moving): (usize, &[(usize, f64)])) -> Result<(usize, f64)> {
    let per_latent = rate as f64;
    let is_snake = node.domain == DOMAIN && node.op == "Snake";
    if is_snake || (matches!(node.domain.as_str(), "" | "ai.onnx") && LOCAL.split_whitespace().any(|op| op == node.op))
    {
        // A constant may vary by channel, but not in time.
        let is_flat = |name: &String| {
            graph.initializer(name).is_none_or(|tensor| tensor.shape.last().is_none_or(|&last| last == 1))
        };
        let fits = moving.iter().all(|(other, _)| *other == rate) && node.inputs.iter().all(is_flat);
        let message = "its inputs differ in rate, or a constant changes over time; pieces need one rate for all";
        return if fits { Ok((rate, 0.0)) } else { Err(Error::unsupported(message)) };
    }
    let weight = node.inputs.get(1).and_then(|name| graph.initializer(name));
    let Some(&[_, _, n_taps]) = weight.map(|tensor| tensor.shape.as_slice()) else {
        return Err(Error::unsupported("looks at the whole signal, or is not known to be local"));
    };
    let ints = |name: &str, or: i64| match node.attribute(name) {
        None => Some((or, or)),
        Some(content) => match content.ints() {
            Some(&[one]) => Some((one, one)),
            Some(&[one, two]) => Some((one, two)),
            _ => None,
        },
    };
    let all = (ints("strides", 1), ints("dilations", 1), ints("pads", 0), ints("output_padding", 0));
    let (Some((stride, _)), Some((dilation, _)), Some((left, right)), Some((extra, _))) = all else {
        return Err(Error::unsupported("is not one-dimensional"));
    };
    let (width, is_same) = ((n_taps as i64 - 1).checked_mul(dilation), node.attribute("auto_pad").is_none());
    let Some(width) = width.filter(|&width| (0..1 << 40).contains(&width) && is_same) else {
        return Err(Error::unsupported("it sets `auto_pad`, or its kernel is too wide; pieces need `pads` in numbers"));
    };
    let (left, right) = (left.clamp(-1, 1 << 40), right.clamp(-1, 1 << 40));
    if node.is("Conv") && stride == 1 && left + right == width && left >= 0 && right >= 0 {
        return Ok((rate, left.max(right) as f64 / per_latent));
    }
    let grows = (1..1 << 20).contains(&stride) && width + 1 + extra.clamp(0, 1 << 20) - left - right == stride;
    if node.is("ConvTranspose") && grows {
        let rate = rate.checked_mul(stride as usize).filter(|&rate| rate <= 1 << 20);
        let rate = rate.ok_or_else(|| Error::unsupported("a rate of more than 2^20"))?;
        return Ok((rate, (width / stride + 1) as f64 / per_latent));
    }
    Err(Error::unsupported("changes the length in a way that pieces cannot follow"))
}

/// Runs an engine on pieces.
pub struct Chunked {
    inner: Box<dyn Engine>,
    reach: Reach,
    len: usize,
}

impl Chunked {
    /// Runs `engine` on pieces of `len` inputs, each extended by `reach` on both sides.
    pub fn new(engine: Box<dyn Engine>, reach: Reach, len: usize) -> Self {
        Self { inner: engine, reach, len: len.max(1) }
    }

    /// Assembles the output from pieces, each computed by `run`.
    fn pieces(
        &mut self,
        inputs: &[Value],
        mut run: impl FnMut(&mut dyn Engine, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let (&[_, _, total], Reach { latents, rate }) = (inputs[0].shape(), self.reach) else {
            return Err(Error::invalid("in pieces: the input does not have three axes"));
        };
        if total <= self.len.saturating_add(2 * latents) {
            return run(self.inner.as_mut(), inputs);
        }
        let mut whole: Option<Value> = None;
        for start in (0..total).step_by(self.len) {
            let end = total.min(start + self.len);
            let (first, last) = (start.saturating_sub(latents), total.min(end.saturating_add(latents)));
            let piece = run(self.inner.as_mut(), &[cut(&inputs[0], first, last)?])?;
            let [piece] = piece.as_slice() else { return Err(Error::invalid("in pieces: more than one output")) };
            let &[batch, n_out, len] = piece.shape() else {
                return Err(Error::invalid("in pieces: the output does not have three axes"));
            };
            if len != (last - first) * rate {
                return Err(Error::invalid(format!(
                    "in pieces: {len} outputs of {} inputs at rate {rate}",
                    last - first
                )));
            }
            let whole = match &mut whole {
                Some(whole) => whole,
                None => whole.insert(Value::zeros(piece.dtype(), &[batch, n_out, total * rate])?),
            };
            paste(piece, (start - first) * rate, whole, start * rate..end * rate);
        }
        Ok(whole.into_iter().collect())
    }
}

impl Engine for Chunked {
    fn name(&self) -> EngineName {
        self.inner.name()
    }

    fn ports(&self) -> &Ports {
        self.inner.ports()
    }

    /// Runs the pieces; each is a run of the inner engine with its own span.
    fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        check_inputs(self.inputs(), inputs)?;
        self.execute(inputs)
    }

    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.pieces(inputs, |engine, piece| engine.run(piece))
    }

    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        check_inputs(self.inputs(), inputs)?;
        let mut operators = Vec::new();
        let outputs = self.pieces(inputs, |engine, piece| {
            let (outputs, more) = engine.profile(piece)?;
            Operator::add(&mut operators, more);
            Ok(outputs)
        })?;
        Ok((outputs, operators))
    }

    fn end_profile(&mut self) -> Result<Vec<Operator>> {
        self.inner.end_profile()
    }
}

/// Returns a range of the last axis.
fn cut(value: &Value, first: usize, last: usize) -> Result<Value> {
    let size = value.dtype().size();
    let (shape, total) = (value.shape(), value.shape().last().copied().unwrap_or(0));
    let mut part = Value::zeros(value.dtype(), &[shape[0], shape[1], last - first])?;
    let rows = value.bytes().chunks_exact(total * size);
    for (to, from) in part.bytes_mut().chunks_exact_mut((last - first) * size).zip(rows) {
        to.copy_from_slice(&from[first * size..last * size]);
    }
    Ok(part)
}

fn paste(piece: &Value, from: usize, whole: &mut Value, to: std::ops::Range<usize>) {
    let size = piece.dtype().size();
    let last = |value: &Value| value.shape().last().copied().unwrap_or(0) * size;
    let (piece_len, whole_len) = (last(piece), last(whole));
    let rows = piece.bytes().chunks_exact(piece_len);
    for (whole, piece) in whole.bytes_mut().chunks_exact_mut(whole_len).zip(rows) {
        let range = from * size..(from + to.len()) * size;
        whole[to.start * size..to.end * size].copy_from_slice(&piece[range]);
    }
}

#[cfg(test)]
mod tests {
    use melisma_kernels::Budget;

    use super::*;
    use crate::engine::ours::chain;
    use crate::engine::{Options, rten};
    use crate::onnx::synthetic::{Snac, snac_decoder, whisper_encoder};
    use crate::onnx::{Dim, Tensor, ValueInfo, ValueType, pass};

    #[test]
    fn pieces_make_the_whole() {
        let model = snac_decoder(&Snac { latent_dim: 8, dim: 16, strides: &[3, 2] }, 3).unwrap();
        let reach = Reach::of(&model).unwrap();
        let ours = chain::build(&model, &Options::default(), &Budget::unlimited()).unwrap();
        assert!(reach.rate == 6 && reach.latents >= ours.reach() && reach.latents < 2 * ours.reach(), "{reach:?}");
        let values: Vec<f32> = (0..8 * 100).map(|i| (i as f32 * 0.7).sin()).collect();
        let x = [Value::from_slice(&values, &[1, 8, 100]).unwrap()];
        let whole = rten::build(&model, &Options::default()).unwrap().run(&x).unwrap();
        for len in [1, 17, 40, 1000] {
            let engine = Box::new(rten::build(&model, &Options::default()).unwrap());
            let pieces = Chunked::new(engine, reach, len).run(&x).unwrap();
            assert!(pass::error(&whole, &pieces) < 1e-6, "pieces of {len}");
        }
        let short = Reach { latents: 2, ..reach };
        let engine = Box::new(rten::build(&model, &Options::default()).unwrap());
        assert!(pass::error(&whole, &Chunked::new(engine, short, 17).run(&x).unwrap()) > 1e-4, "the reach is needed");
    }

    /// Returns a single node with the weights `w`.
    fn single(node: Node, w: &[f32]) -> Model {
        let port = |name: &str| ValueInfo {
            name: name.to_owned(),
            r#type: ValueType::Tensor { dtype: 1, shape: Some(vec![Dim::Open; 3]) },
            rest: Vec::new(),
        };
        let graph = Graph {
            nodes: vec![node],
            initializers: vec![Tensor::from_slice("w", w, &[1, 1, w.len()]).unwrap()],
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            ..Graph::default()
        };
        Model::of(graph)
    }

    fn reach(node: Node, w: &[f32]) -> Reach {
        Reach::of(&single(node, w)).unwrap()
    }

    #[test]
    fn a_piece_has_all_that_it_looks_at() {
        let values: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin()).collect();
        let x = [Value::from_slice(&values, &[1, 1, 40]).unwrap()];
        for pads in [[0i64, 4], [4, 0], [2, 2]] {
            let model = single(Node::new("Conv", &["x", "w"], &["y"]).with("pads", pads.to_vec()), &[1.0; 5]);
            let build = || rten::build(&model, &Options::default()).unwrap();
            let pieces = Chunked::new(Box::new(build()), Reach::of(&model).unwrap(), 7).run(&x).unwrap();
            assert!(pass::error(&build().run(&x).unwrap(), &pieces) < 1e-6, "{pads:?}");
        }
    }

    /// With as much padding as here, an output depends on the next latent alone.
    #[test]
    fn padding_counts_in_the_reach_of_a_transposed_convolution() {
        let node = Node::new("ConvTranspose", &["x", "w"], &["y"])
            .with("strides", vec![3i64])
            .with("pads", vec![1i64, 0])
            .with("output_padding", vec![2i64]);
        assert_eq!(reach(node, &[0.5, 2.0]), Reach { latents: 1, rate: 3 });
    }

    #[test]
    fn a_convolution_reaches_as_far_as_its_longer_side() {
        for (pads, latents) in [([0i64, 4], 4), ([4, 0], 4), ([1, 3], 3), ([2, 2], 2)] {
            let node = Node::new("Conv", &["x", "w"], &["y"]).with("pads", pads.to_vec());
            assert_eq!(reach(node, &[1.0; 5]), Reach { latents, rate: 1 }, "{pads:?}");
        }
    }

    #[test]
    fn what_looks_further_is_named() {
        let message = Reach::of(&whisper_encoder(0).unwrap()).unwrap_err().to_string();
        assert!(message.starts_with("in pieces: node `conv_6` (Conv)"), "{message}");
        let mut model = snac_decoder(&Snac { latent_dim: 8, dim: 16, strides: &[2] }, 3).unwrap();
        model.graph.nodes.last_mut().unwrap().op = "Softmax".to_owned();
        assert!(Reach::of(&model).unwrap_err().to_string().contains("(Softmax): looks at the whole signal"));
    }
}
