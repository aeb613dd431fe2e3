//! Snake, x + sin²(αx)·k with k = 1/α or 1/(α + 1e-9), per channel of `[B, C, T]`: exporters write
//! five nodes, our engine runs one. For other engines, the five nodes are restored.

use std::collections::HashMap;

use super::{Names, reads};
use crate::DType;
use crate::onnx::{Graph, Model, Node, Opset};

/// The operator domain of our engine: `Snake(x, alpha, k)`.
pub const DOMAIN: &str = "ai.melisma";

/// The parts of one Snake.
struct Found {
    x: String,
    alpha: String,
    inverse: String,
    /// Nodes whose outputs are read nowhere else.
    nodes: [usize; 4],
}

/// Fuses every Snake, and returns how many there were. Requires folded constants.
pub fn fuse_snake(model: &mut Model) -> usize {
    let graph = &model.graph;
    let makers: HashMap<&str, usize> = graph
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(at, node)| node.outputs.iter().map(move |name| (name.as_str(), at)))
        .collect();
    let counts = reads(graph);
    let search = Search { graph, makers, counts };
    let found: Vec<(usize, Found)> = (0..graph.nodes.len()).filter_map(|at| Some((at, search.at(at)?))).collect();
    let mut is_gone = vec![false; graph.nodes.len()];
    let n_fused = found.len();
    for (at, found) in found {
        found.nodes.iter().for_each(|&node| is_gone[node] = true);
        let node = &mut model.graph.nodes[at];
        node.op = "Snake".to_owned();
        node.domain = DOMAIN.to_owned();
        node.inputs = vec![found.x, found.alpha, found.inverse];
        node.attributes.clear();
    }
    let mut at = 0;
    model.graph.nodes.retain(|_| {
        at += 1;
        !is_gone[at - 1]
    });
    if n_fused > 0 && model.opset(DOMAIN).is_none() {
        model.opsets.push(Opset { domain: DOMAIN.to_owned(), version: 1 });
    }
    n_fused
}

/// Restores the five nodes.
pub fn lower_snake(model: &mut Model) {
    let mut names = Names::of(model);
    let mut nodes = Vec::with_capacity(model.graph.nodes.len());
    for node in std::mem::take(&mut model.graph.nodes) {
        let (DOMAIN, "Snake", [x, alpha, inverse]) = (node.domain.as_str(), node.op.as_str(), node.inputs.as_slice())
        else {
            nodes.push(node);
            continue;
        };
        let y = &node.outputs[0];
        let [ax, sine, square, scaled] =
            ["ax", "sin", "square", "scaled"].map(|part| names.fresh(&format!("{y}/{part}")));
        nodes.push(Node::new("Mul", &[x, alpha], &[&ax]));
        nodes.push(Node::new("Sin", &[&ax], &[&sine]));
        nodes.push(Node::new("Mul", &[&sine, &sine], &[&square]));
        nodes.push(Node::new("Mul", &[&square, inverse], &[&scaled]));
        nodes.push(Node { name: node.name.clone(), ..Node::new("Add", &[x, &scaled], &[y]) });
    }
    model.graph.nodes = nodes;
    model.opsets.retain(|opset| opset.domain != DOMAIN);
}

struct Search<'m> {
    graph: &'m Graph,
    makers: HashMap<&'m str, usize>,
    counts: HashMap<&'m str, usize>,
}

impl<'m> Search<'m> {
    fn at(&self, at: usize) -> Option<Found> {
        let node = &self.graph.nodes[at];
        self.either(node, "Add", |x, scaled| {
            let (scale_at, scale) = self.maker(scaled, 1)?;
            let (square, inverse) = self.scaled(scale)?;
            let (square_at, maker) = self.maker(square, 1)?;
            let sine = self.squared(maker)?;
            let (sine_at, maker) = self.maker(sine, if maker.op == "Mul" { 2 } else { 1 })?;
            let [turns] = self.inputs(maker, "Sin")?;
            let (turns_at, maker) = self.maker(turns, 1)?;
            let alpha = self.either(maker, "Mul", |a, b| (a == x && self.floats(b).is_some()).then_some(b))?;
            self.fits(alpha, inverse).then(|| Found {
                x: x.to_owned(),
                alpha: alpha.to_owned(),
                inverse: inverse.to_owned(),
                nodes: [scale_at, square_at, sine_at, turns_at],
            })
        })
    }

    /// Tries the two inputs of `op` in both orders until one fits.
    fn either<T>(&self, node: &'m Node, op: &str, fits: impl Fn(&'m str, &'m str) -> Option<T>) -> Option<T> {
        let [a, b] = self.inputs(node, op)?;
        fits(a, b).or_else(|| fits(b, a))
    }

    fn inputs<const N: usize>(&self, node: &'m Node, op: &str) -> Option<[&'m str; N]> {
        let names: [&String; N] = node.inputs.iter().collect::<Vec<_>>().try_into().ok()?;
        node.is(op).then(|| names.map(String::as_str))
    }

    /// Returns the node that computes a value, if it is read exactly `n_reads` times.
    fn maker(&self, name: &str, n_reads: usize) -> Option<(usize, &'m Node)> {
        let at = *self.makers.get(name)?;
        (self.counts.get(name) == Some(&n_reads)).then(|| (at, &self.graph.nodes[at]))
    }

    /// Returns the square and its constant factor.
    fn scaled(&self, node: &'m Node) -> Option<(&'m str, &'m str)> {
        self.either(node, "Mul", |a, b| self.floats(b).map(|_| (a, b)))
    }

    fn squared(&self, node: &'m Node) -> Option<&'m str> {
        if let Some([a, b]) = self.inputs(node, "Mul") {
            return (a == b).then_some(a);
        }
        let [base, exponent] = self.inputs(node, "Pow")?;
        (self.floats(exponent)? == [2.0]).then_some(base)
    }

    fn floats(&self, name: &str) -> Option<Vec<f32>> {
        let tensor = self.graph.initializer(name).filter(|tensor| tensor.dtype == DType::F32.code())?;
        Some(tensor.value().ok()?.as_slice::<f32>().ok()?.to_vec())
    }

    /// Returns whether there is one number per channel, and the factors are the reciprocals.
    fn fits(&self, alpha: &str, inverse: &str) -> bool {
        let shape = |name| self.graph.initializer(name).map(|tensor| tensor.shape.clone());
        let per_channel = |shape: Vec<usize>| matches!(shape.as_slice(), [1, _, 1] | [_, 1]);
        let (Some(a), Some(k)) = (self.floats(alpha), self.floats(inverse)) else { return false };
        let near = |(a, k): (&f32, &f32)| (k * (a + 1e-9) - 1.0).abs() < 1e-5;
        shape(alpha) == shape(inverse) && shape(alpha).is_some_and(per_channel) && a.iter().zip(&k).all(near)
    }
}
