//! Converts a graph to a chain of stages on `[B, C, T]`: convolutions, Snake, curves, and residual
//! branches. Errors name the nodes that do not fit.

use std::collections::{BTreeSet, HashMap};

use crate::engine::Port;
use crate::onnx::pass::DOMAIN;
use crate::onnx::{Graph, Model, Node};
use crate::{DType, Error, Result};

use super::NAME;

/// One step of the chain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// α per channel.
    Snake(Vec<f32>),
    Conv(Conv),
    Transposed(Transposed),
    Curve(Curve),
    /// x + f(x).
    Residual(Vec<Stage>),
}

/// Stride 1; preserves the length.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conv {
    pub n_in: usize,
    pub n_out: usize,
    /// Odd.
    pub n_taps: usize,
    pub dilation: usize,
    pub groups: usize,
    /// `[C_out, C_in / groups, K]`
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

/// 2 s taps; multiplies the length by s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transposed {
    pub n_in: usize,
    pub n_out: usize,
    pub stride: usize,
    /// `[C_in, C_out, 2 s]`
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

/// An elementwise function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Curve {
    Tanh,
    Relu,
    LeakyRelu(f32),
}

const OPERATORS: [&str; 6] = ["Conv", "ConvTranspose", "Tanh", "Relu", "LeakyRelu", "Add"];
const MAX_DEPTH: usize = 16;
/// Limit on the floats of input history that a layer stores.
const MAX_HISTORY: usize = 1 << 26;

/// Returns the stages of a model with folded constants and fused Snakes.
pub(super) fn stages(model: &Model) -> Result<Vec<Stage>> {
    let graph = &model.graph;
    let is_known =
        |node: &&Node| (node.domain == DOMAIN && node.op == "Snake") || OPERATORS.iter().any(|op| node.is(op));
    let unknown: BTreeSet<String> = graph.nodes.iter().filter(|node| !is_known(node)).map(Node::operator).collect();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().collect();
        return Err(Error::unsupported(format!("{NAME}: no such operator: {}", names.join(", "))));
    }
    let (inputs, [output]) = (Port::inputs(model)?, graph.outputs.as_slice()) else {
        return Err(refused("the model has more than one output"));
    };
    let [input] = inputs.as_slice() else { return Err(refused("the model has more than one input")) };
    let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().for_each(|name| readers.entry(name).or_default().push(at));
    }
    let walk = Walk { graph, readers, output: &output.name };
    let (stages, end) = walk.from(&input.name, None, 0)?;
    if end != output.name {
        return Err(refused(format!("`{end}` leads nowhere")));
    }
    Ok(stages)
}

fn refused(message: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("{NAME}: {message}"))
}

struct Walk<'m> {
    graph: &'m Graph,
    readers: HashMap<&'m str, Vec<usize>>,
    output: &'m str,
}

impl<'m> Walk<'m> {
    /// Returns the stages from a value to the output, or to the `Add` node `goal`.
    fn from(&self, mut value: &'m str, goal: Option<usize>, depth: usize) -> Result<(Vec<Stage>, &'m str)> {
        let mut stages = Vec::new();
        loop {
            let readers = self.readers.get(value).map_or(&[][..], Vec::as_slice);
            if value == self.output && !readers.is_empty() {
                return Err(refused(format!("output `{value}` is read by a node too")));
            }
            match *readers {
                [] => return Ok((stages, value)),
                [reader] if Some(reader) == goal => return Ok((stages, value)),
                [reader] => {
                    let node = &self.graph.nodes[reader];
                    stages.push(self.stage(node)?);
                    value = &node.outputs[0];
                }
                [a, b] if a != b && depth < MAX_DEPTH => {
                    let is_add = |at: usize| self.graph.nodes[at].is("Add");
                    // Nodes are in order, so the `Add` comes last.
                    let ([first, add], true) = ([a.min(b), a.max(b)], is_add(a.max(b))) else {
                        return Err(refused(format!("`{value}` goes two ways that do not meet")));
                    };
                    let mut inner = vec![self.stage(&self.graph.nodes[first])?];
                    let (rest, end) = self.from(&self.graph.nodes[first].outputs[0], Some(add), depth + 1)?;
                    inner.extend(rest);
                    let mut sum = self.graph.nodes[add].inputs.iter().map(String::as_str).collect::<Vec<_>>();
                    sum.sort_unstable();
                    let mut ends = vec![value, end];
                    ends.sort_unstable();
                    if sum != ends {
                        return Err(refused(format!("`{value}` goes two ways that do not meet")));
                    }
                    stages.push(Stage::Residual(inner));
                    value = &self.graph.nodes[add].outputs[0];
                }
                _ => return Err(refused(format!("`{value}` is read by {} nodes", readers.len()))),
            }
        }
    }

    fn stage(&self, node: &Node) -> Result<Stage> {
        let place = |error: Error| error.at(format!("{NAME}: {}", node.label()));
        match node.op.as_str() {
            "Snake" => self.floats(node, 1).map(|(alpha, _)| Stage::Snake(alpha)).map_err(place),
            "Conv" => self.conv(node).map(Stage::Conv).map_err(place),
            "ConvTranspose" => self.transposed(node).map(Stage::Transposed).map_err(place),
            "Tanh" => Ok(Stage::Curve(Curve::Tanh)),
            "Relu" => Ok(Stage::Curve(Curve::Relu)),
            "LeakyRelu" => {
                let slope = node.attribute("alpha").and_then(|alpha| alpha.float()).unwrap_or(0.01);
                Ok(Stage::Curve(Curve::LeakyRelu(slope)))
            }
            _ => Err(refused(format!("{} does not close a branch", node.label()))),
        }
    }

    fn conv(&self, node: &Node) -> Result<Conv> {
        let (weight, shape) = self.floats(node, 1)?;
        let &[n_out, per_group, n_taps] = shape.as_slice() else {
            return Err(Error::unsupported("not one-dimensional"));
        };
        let [groups, stride, dilation] =
            [("group", 1), ("strides", 1), ("dilations", 1)].map(|(name, or)| int(node, name, or));
        let (groups, dilation) = (groups?, dilation?);
        let reach = (n_taps.saturating_sub(1))
            .checked_mul(dilation)
            .ok_or_else(|| Error::unsupported("its dilation overflows"))?;
        let pads = ints(node, "pads", &[0, 0]);
        if stride? != 1
            || n_taps.is_multiple_of(2)
            || pads != [reach as i64 / 2, reach as i64 / 2]
            || is_automatic(node)
        {
            return Err(Error::unsupported(
                "only stride 1, an odd number of taps and half of them as padding on each side",
            ));
        }
        let n_in = per_group.checked_mul(groups).filter(|&n_in| n_in > 0 && n_out > 0 && n_out.is_multiple_of(groups));
        let n_in = n_in.ok_or_else(|| Error::unsupported("its groups do not divide its channels"))?;
        if groups != 1 && (groups != n_in || n_out != n_in) {
            return Err(Error::unsupported("groups that are neither one nor all channels"));
        }
        if reach.saturating_mul(n_in) > MAX_HISTORY {
            return Err(Error::unsupported(format!("it looks back over {reach} rows of {n_in} channels")));
        }
        Ok(Conv { n_in, n_out, n_taps, dilation, groups, weight, bias: self.bias(node, n_out)? })
    }

    fn transposed(&self, node: &Node) -> Result<Transposed> {
        let (weight, shape) = self.floats(node, 1)?;
        let &[n_in, n_out, n_taps] = shape.as_slice() else { return Err(Error::unsupported("not one-dimensional")) };
        let stride = int(node, "strides", 1)?;
        let half = stride.div_ceil(2) as i64;
        let is_plain = int(node, "group", 1)? == 1 && int(node, "dilations", 1)? == 1 && !is_automatic(node);
        let lengths = (ints(node, "pads", &[0, 0]), ints(node, "output_padding", &[0]));
        let fits = lengths == (vec![half, half], vec![(stride % 2) as i64]) && node.attribute("output_shape").is_none();
        if !is_plain || !fits || stride == 0 || Some(n_taps) != stride.checked_mul(2) || n_in == 0 || n_out == 0 {
            return Err(Error::unsupported(
                "only twice as many taps as the stride, and outputs of stride times the inputs",
            ));
        }
        Ok(Transposed { n_in, n_out, stride, weight, bias: self.bias(node, n_out)? })
    }

    fn bias(&self, node: &Node, n_out: usize) -> Result<Vec<f32>> {
        match node.inputs.get(2).filter(|name| !name.is_empty()) {
            None => Ok(vec![0.0; n_out]),
            Some(_) => match self.floats(node, 2)?.0 {
                bias if bias.len() == n_out => Ok(bias),
                bias => Err(Error::unsupported(format!("bias has {} values for {n_out} channels", bias.len()))),
            },
        }
    }

    fn floats(&self, node: &Node, index: usize) -> Result<(Vec<f32>, Vec<usize>)> {
        let tensor = node.inputs.get(index).and_then(|name| self.graph.initializer(name));
        let tensor = tensor.filter(|tensor| tensor.dtype == DType::F32.code());
        let tensor = tensor.ok_or_else(|| Error::unsupported(format!("input {index} is not a constant of f32")))?;
        Ok((tensor.value()?.as_slice::<f32>()?.to_vec(), tensor.shape.clone()))
    }
}

fn is_automatic(node: &Node) -> bool {
    node.attribute("auto_pad").is_some_and(|value| value.text() != Some("NOTSET"))
}

fn ints(node: &Node, name: &str, or: &[i64]) -> Vec<i64> {
    node.attribute(name).and_then(|value| value.ints()).unwrap_or(or).to_vec()
}

/// Returns an integer, or a list of one.
fn int(node: &Node, name: &str, or: i64) -> Result<usize> {
    let value = match node.attribute(name) {
        None => or,
        Some(content) => match (content.int(), content.ints()) {
            (Some(value), _) | (_, Some(&[value])) => value,
            _ => return Err(Error::unsupported(format!("its {name}"))),
        },
    };
    usize::try_from(value).map_err(|_| Error::unsupported(format!("its {name}")))
}
