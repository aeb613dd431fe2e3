//! Graphs: nodes in order, constant tensors, inputs and outputs.

use std::fmt;

use super::{Attribute, Content, Tensor};

/// An operator set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opset {
    /// Its domain; empty for ONNX's own.
    pub domain: String,
    /// Its version.
    pub version: i64,
}

/// A computation. Each value has one source: an input, an initializer, or a node before its
/// readers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// The nodes, each after its inputs.
    pub nodes: Vec<Node>,
    /// Constant tensors.
    pub initializers: Vec<Tensor>,
    /// The inputs. Old models also list the initializers here.
    pub inputs: Vec<ValueInfo>,
    /// The outputs.
    pub outputs: Vec<ValueInfo>,
    /// The declared types of intermediate values.
    pub infos: Vec<ValueInfo>,
    /// Fields that are passed through.
    pub rest: Vec<u8>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its name; may be empty.
    pub name: String,
    /// The operator.
    pub op: String,
    /// The operator's domain; empty for ONNX's own.
    pub domain: String,
    /// Names of values; empty for an omitted optional input.
    pub inputs: Vec<String>,
    /// Names of values; empty for an unused optional output.
    pub outputs: Vec<String>,
    /// Its parameters.
    pub attributes: Vec<Attribute>,
    /// Fields that are passed through.
    pub rest: Vec<u8>,
}

/// A name and a type.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueInfo {
    /// The value's name.
    pub name: String,
    /// Its type.
    pub r#type: ValueType,
    /// Fields that are passed through.
    pub rest: Vec<u8>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueType {
    /// A tensor.
    Tensor {
        /// Number of the element type.
        dtype: i32,
        /// Its axes; `None` if their number is unknown.
        shape: Option<Vec<Dim>>,
    },
    /// Sequences, maps, optionals or nothing, as in the file.
    Other(Vec<u8>),
}

/// The length of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// Fixed.
    Known(i64),
    /// Variable and named; equal names mean equal lengths.
    Named(String),
    /// Variable.
    Open,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(len) => write!(f, "{len}"),
            Self::Named(name) => f.write_str(name),
            Self::Open => f.write_str("?"),
        }
    }
}

impl Node {
    /// Creates a node with one of ONNX's own operators.
    pub fn new(op: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self { op: op.to_owned(), inputs: names(inputs), outputs: names(outputs), ..Self::default() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Content>) -> Self {
        self.attributes.push(Attribute::new(name, value));
        self
    }

    /// Returns the attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&Content> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.content)
    }

    /// Returns whether it is ONNX's own operator `op`.
    pub fn is(&self, op: &str) -> bool {
        self.op == op && matches!(self.domain.as_str(), "" | "ai.onnx")
    }

    /// Returns its name in messages: its own, otherwise that of its first output.
    pub fn label(&self) -> String {
        if self.name.starts_with("node `") {
            return self.name.clone();
        }
        let name =
            if self.name.is_empty() { self.outputs.iter().find(|name| !name.is_empty()) } else { Some(&self.name) };
        format!("node `{}` ({})", name.map_or("", String::as_str), self.operator())
    }

    /// Returns the operator, prefixed with its domain unless that is ONNX's own.
    pub fn operator(&self) -> String {
        if matches!(self.domain.as_str(), "" | "ai.onnx") {
            self.op.clone()
        } else {
            format!("{}.{}", self.domain, self.op)
        }
    }

    /// Returns the subgraphs among its attributes.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.iter().flat_map(|attribute| match &attribute.content {
            Content::Graph(graph) => std::slice::from_ref(graph.as_ref()),
            Content::Graphs(graphs) => graphs,
            _ => &[],
        })
    }
}

impl Graph {
    /// Returns the number of nodes, including those of subgraphs.
    pub fn n_nodes(&self) -> usize {
        self.nodes.iter().map(|node| 1 + node.graphs().map(Self::n_nodes).sum::<usize>()).sum()
    }

    /// Returns the initializer called `name`.
    pub fn initializer(&self, name: &str) -> Option<&Tensor> {
        self.initializers.iter().find(|tensor| tensor.name == name)
    }
}

impl ValueInfo {
    /// Creates a tensor with element type number `dtype`.
    pub fn tensor(name: &str, dtype: i32, shape: &[Dim]) -> Self {
        Self {
            name: name.to_owned(),
            r#type: ValueType::Tensor { dtype, shape: Some(shape.to_vec()) },
            rest: Vec::new(),
        }
    }
}
