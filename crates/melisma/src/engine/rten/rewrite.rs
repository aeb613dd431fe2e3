//! Rewrites operators.
//!
//! # Why is a model changed before the embedded engine gets it?
//!
//! The engine returns the last of equal values where the standard asks for the first, treats zero
//! as signed, and gives omitted lists the defaults of images. A model is rewritten if one form
//! means the same to both; anything else is rejected.

use std::collections::HashSet;

use crate::onnx::{Node, Tensor};
use crate::{DType, Result};

/// A graph being rewritten. Each method returns the node that computes the old node's value, and
/// adds the nodes before it.
pub(super) struct Rewrite<'a> {
    pub nodes: Vec<Node>,
    pub tensors: Vec<Tensor>,
    /// Names in use.
    pub taken: &'a mut HashSet<String>,
}

impl Rewrite<'_> {
    fn fresh(&mut self, base: &str) -> String {
        let names = (1..).map(|n| format!("{base}/{n}"));
        names.into_iter().find(|name| self.taken.insert(name.clone())).unwrap_or_default()
    }

    fn number(&mut self, base: &str, value: f32) -> Result<String> {
        let name = self.fresh(base);
        self.tensors.push(Tensor::from_slice(&name, &[value], &[])?);
        Ok(name)
    }

    /// Rewrites a sign: the engine returns 1 for zero.
    pub(super) fn sign(&mut self, node: Node) -> Result<Node> {
        let (x, y) = (node.inputs[0].clone(), node.outputs[0].clone());
        let [is_zero, sign] = [(); 2].map(|()| self.fresh(&y));
        let zero = self.number(&y, 0.0)?;
        self.nodes.push(Node::new("Equal", &[&x, &zero], &[&is_zero]));
        self.nodes.push(Node { outputs: vec![sign.clone()], ..node });
        Ok(Node::new("Where", &[&is_zero, &x, &sign], &[&y]))
    }

    /// Rewrites a softmax: before version 13, all axes from the named one on were flattened.
    pub(super) fn old_softmax(&mut self, mut node: Node) -> Node {
        let axis = node.attribute("axis").and_then(|axis| axis.int()).unwrap_or(1);
        let (x, y) = (node.inputs[0].clone(), node.outputs[0].clone());
        let [shape, flat, done] = [(); 3].map(|()| self.fresh(&y));
        self.nodes.push(Node::new("Shape", &[&x], &[&shape]));
        self.nodes.push(Node::new("Flatten", &[&x], &[&flat]).with("axis", axis));
        node.attributes.retain(|attribute| attribute.name != "axis");
        self.nodes.push(Node { inputs: vec![flat], outputs: vec![done.clone()], ..node }.with("axis", -1));
        Node::new("Reshape", &[&done, &shape], &[&y])
    }

    /// Rewrites a softplus: above 20, log(1 + exp(x)) equals x in 32 bits; the engine's version overflows at 89.
    pub(super) fn softplus(&mut self, node: Node) -> Result<Node> {
        let (x, y) = (node.inputs[0].clone(), node.outputs[0].clone());
        let [is_large, done] = [(); 2].map(|()| self.fresh(&y));
        let twenty = self.number(&y, 20.0)?;
        self.nodes.push(Node::new("Greater", &[&x, &twenty], &[&is_large]));
        self.nodes.push(Node { outputs: vec![done.clone()], ..node });
        Ok(Node::new("Where", &[&is_large, &x, &done], &[&y]))
    }

    /// Rewrites a cast to bool, which asks whether a value is nonzero: the engine truncates the
    /// fraction first.
    pub(super) fn truth(&mut self, node: Node) -> Result<Node> {
        let y = node.outputs[0].clone();
        let [number, is_zero] = [(); 2].map(|()| self.fresh(&y));
        let zero = self.number(&y, 0.0)?;
        let to = i64::from(DType::F32.code());
        self.nodes.push(Node::new("Cast", &[&node.inputs[0]], &[&number]).with("to", to));
        self.nodes.push(Node::new("Equal", &[&number, &zero], &[&is_zero]));
        Ok(Node::new("Not", &[&is_zero], &[&y]))
    }

    /// Rewrites a search that wants the first of equal values: the engine returns the index of the
    /// last, and the first is the last in reverse order, counted from the end.
    pub(super) fn first_of_equals(&mut self, mut node: Node) -> Result<Node> {
        let takes_last = node.attribute("select_last_index").is_some_and(|value| value.int() == Some(1));
        node.attributes.retain(|attribute| attribute.name != "select_last_index");
        if takes_last {
            return Ok(node);
        }
        let axis = node.attribute("axis").and_then(|axis| axis.int()).unwrap_or(0);
        let (x, y) = (node.inputs[0].clone(), node.outputs[0].clone());
        let [back, end, axes, one, reversed, place, shape, len, last] = [(); 9].map(|()| self.fresh(&y));
        for (name, value) in [(&back, -1i64), (&end, i64::from(-i32::MAX)), (&axes, axis), (&one, 1)] {
            self.tensors.push(Tensor::from_slice(name, &[value], &[1])?);
        }
        self.nodes.push(Node::new("Slice", &[&x, &back, &end, &axes, &back], &[&reversed]));
        self.nodes.push(Node { inputs: vec![reversed], outputs: vec![place.clone()], ..node });
        self.nodes.push(Node::new("Shape", &[&x], &[&shape]));
        self.nodes.push(Node::new("Gather", &[&shape, &axes], &[&len]));
        self.nodes.push(Node::new("Sub", &[&len, &one], &[&last]));
        // A scalar, so that the result has the shape of the index.
        let scalar = self.fresh(&y);
        let none = self.fresh(&y);
        self.tensors.push(Tensor::from_slice::<i64>(&none, &[], &[0])?);
        self.nodes.push(Node::new("Reshape", &[&last, &none], &[&scalar]));
        Ok(Node::new("Sub", &[&scalar, &place], &[&y]))
    }
}
