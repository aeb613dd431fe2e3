//! Graphs: nodes in order, constant tensors, inputs and outputs.

use std::fmt;

use super::{Attribute, Content, Tensor};

/// A set of operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opset {
    /// Empty for ONNX's own.
    pub domain: String,
    /// Its version.
    pub version: i64,
}

/// A computation. Each value has one source: an input, an initialiser, or a node before its readers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// The operations, each after what it reads.
    pub nodes: Vec<Node>,
    /// Constant tensors.
    pub initializers: Vec<Tensor>,
    /// What it takes. In old models also the initialisers.
    pub inputs: Vec<ValueInfo>,
    /// What it gives.
    pub outputs: Vec<ValueInfo>,
    /// What the model says about values between nodes.
    pub infos: Vec<ValueInfo>,
    /// Fields that we carry along.
    pub rest: Vec<u8>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its name; may be empty.
    pub name: String,
    /// The operator.
    pub op: String,
    /// The operator's set; empty for ONNX's own.
    pub domain: String,
    /// Names of values; empty where an optional one is left out.
    pub inputs: Vec<String>,
    /// Names of values; empty where an optional one is not wanted.
    pub outputs: Vec<String>,
    /// Its parameters.
    pub attributes: Vec<Attribute>,
    /// Fields that we carry along.
    pub rest: Vec<u8>,
}

/// A name and a type.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueInfo {
    /// The value's name.
    pub name: String,
    /// Its type.
    pub r#type: ValueType,
    /// Fields that we carry along.
    pub rest: Vec<u8>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueType {
    /// A tensor.
    Tensor {
        /// The number of the element type.
        dtype: i32,
        /// Its axes; none where their number is unknown.
        shape: Option<Vec<Dim>>,
    },
    /// Sequences, maps, optionals, or nothing, as they stand in the file.
    Other(Vec<u8>),
}

/// The length of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// A number.
    Known(i64),
    /// Open, with a name; the same name is the same length.
    Named(String),
    /// Open.
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
    /// A node of ONNX's own operators.
    pub fn new(op: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self { op: op.to_owned(), inputs: names(inputs), outputs: names(outputs), ..Self::default() }
    }

    /// With an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Content>) -> Self {
        self.attributes.push(Attribute::new(name, value));
        self
    }

    /// Its attribute of a name.
    pub fn attribute(&self, name: &str) -> Option<&Content> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.content)
    }

    /// Whether it is ONNX's own operator `op`.
    pub fn is(&self, op: &str) -> bool {
        self.op == op && matches!(self.domain.as_str(), "" | "ai.onnx")
    }

    /// Its name in messages: its own, else that of its first output.
    pub fn label(&self) -> String {
        if self.name.starts_with("node `") {
            return self.name.clone();
        }
        let name =
            if self.name.is_empty() { self.outputs.iter().find(|name| !name.is_empty()) } else { Some(&self.name) };
        format!("node `{}` ({})", name.map_or("", String::as_str), self.operator())
    }

    /// The operator, with its set where that is not ONNX's own.
    pub fn operator(&self) -> String {
        if matches!(self.domain.as_str(), "" | "ai.onnx") {
            self.op.clone()
        } else {
            format!("{}.{}", self.domain, self.op)
        }
    }

    /// The graphs among its attributes.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.iter().flat_map(|attribute| match &attribute.content {
            Content::Graph(graph) => std::slice::from_ref(graph.as_ref()),
            Content::Graphs(graphs) => graphs,
            _ => &[],
        })
    }
}

impl Graph {
    /// How many nodes it has, with those of the graphs inside its nodes.
    pub fn n_nodes(&self) -> usize {
        self.nodes.iter().map(|node| 1 + node.graphs().map(Self::n_nodes).sum::<usize>()).sum()
    }

    /// The initialiser of a name.
    pub fn initializer(&self, name: &str) -> Option<&Tensor> {
        self.initializers.iter().find(|tensor| tensor.name == name)
    }
}

impl ValueInfo {
    /// A tensor of type number `dtype`.
    pub fn tensor(name: &str, dtype: i32, shape: &[Dim]) -> Self {
        Self {
            name: name.to_owned(),
            r#type: ValueType::Tensor { dtype, shape: Some(shape.to_vec()) },
            rest: Vec::new(),
        }
    }
}
