//! Synthetic models with seeded weights, for benchmarks, the demo and tests. They have the shapes
//! of published models, but not their weights.

mod snac;
#[cfg(feature = "bench")]
mod whisper;

pub use snac::{Snac, snac_decoder};
#[cfg(feature = "bench")]
pub use whisper::whisper_encoder;

use crate::Result;
use crate::onnx::{Graph, Model, Node, Opset, Tensor, ValueInfo};
use crate::random::SplitMix64;

/// A graph builder.
#[derive(Default)]
struct Sketch {
    graph: Graph,
    random: SplitMix64,
}

impl Sketch {
    /// Appends a node and returns the name of its output.
    fn node(&mut self, op: &str, inputs: &[&str]) -> String {
        self.with(Node::new(op, inputs, &[]))
    }

    fn with(&mut self, mut node: Node) -> String {
        let name = format!("{}_{}", node.op.to_lowercase(), self.graph.nodes.len());
        node.name.clone_from(&name);
        node.outputs = vec![name.clone()];
        self.graph.nodes.push(node);
        name
    }

    /// Adds a tensor of uniform values in ±`reach` around `middle`.
    fn weight(&mut self, shape: &[usize], middle: f32, reach: f32) -> Result<String> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| middle + reach * self.random.signed()).collect();
        self.tensor(&values, shape)
    }

    /// Adds weights of a layer with `fan_in` inputs per output.
    fn layer(&mut self, shape: &[usize], fan_in: usize) -> Result<String> {
        self.weight(shape, 0.0, (3.0 / fan_in as f32).sqrt())
    }

    fn tensor(&mut self, values: &[f32], shape: &[usize]) -> Result<String> {
        let name = format!("w{}", self.graph.initializers.len());
        self.graph.initializers.push(Tensor::from_slice(&name, values, shape)?);
        Ok(name)
    }

    #[cfg(feature = "bench")]
    fn ints(&mut self, values: &[i64]) -> Result<String> {
        let name = format!("w{}", self.graph.initializers.len());
        self.graph.initializers.push(Tensor::from_slice(&name, values, &[values.len()])?);
        Ok(name)
    }

    fn finish(mut self, name: &str, input: ValueInfo, output: ValueInfo) -> Result<Model> {
        let last = self.graph.nodes.last_mut();
        if let Some(last) = last {
            last.outputs = vec![output.name.clone()];
        }
        self.graph.name = name.to_owned();
        self.graph.inputs = vec![input];
        self.graph.outputs = vec![output];
        let opsets = vec![Opset { domain: String::new(), version: 17 }];
        Model { ir_version: 9, opsets, graph: self.graph, rest: Vec::new() }.checked()
    }
}
