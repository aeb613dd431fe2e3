//! Node attributes. This file and `graph` use each other, because an attribute may be a graph whose
//! nodes have attributes.

use super::{Graph, Tensor};

/// An attribute of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub content: Content,
    /// Fields that are passed through.
    pub rest: Vec<u8>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A number.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Bytes, mostly text.
    Text(Vec<u8>),
    /// A tensor.
    Tensor(Tensor),
    /// A subgraph that the node runs.
    Graph(Box<Graph>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<Vec<u8>>),
    /// Graphs.
    Graphs(Vec<Graph>),
    /// A kind that is only passed through, by its number; its fields are in [`Attribute::rest`].
    Other(i64),
}

impl Attribute {
    /// Creates an attribute with this name and value.
    pub fn new(name: &str, content: impl Into<Content>) -> Self {
        Self { name: name.to_owned(), content: content.into(), rest: Vec::new() }
    }
}

impl Content {
    /// Returns its number in `AttributeProto.AttributeType`.
    pub(super) fn code(&self) -> i64 {
        match self {
            Self::Float(_) => 1,
            Self::Int(_) => 2,
            Self::Text(_) => 3,
            Self::Tensor(_) => 4,
            Self::Graph(_) => 5,
            Self::Floats(_) => 6,
            Self::Ints(_) => 7,
            Self::Texts(_) => 8,
            Self::Graphs(_) => 10,
            Self::Other(code) => *code,
        }
    }

    /// Returns the integer.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    /// Returns the integers.
    pub fn ints(&self) -> Option<&[i64]> {
        if let Self::Ints(values) = self { Some(values) } else { None }
    }

    /// Returns the number.
    pub fn float(&self) -> Option<f32> {
        if let Self::Float(value) = self { Some(*value) } else { None }
    }

    /// Returns the text.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }
}

macro_rules! contents {
    ($($type:ty => |$value:ident| $content:expr),+ $(,)?) => {
        $(impl From<$type> for Content { fn from($value: $type) -> Self { $content } })+
    };
}
contents!(
    i64 => |value| Self::Int(value),
    f32 => |value| Self::Float(value),
    &str => |value| Self::Text(value.as_bytes().to_vec()),
    Vec<i64> => |values| Self::Ints(values),
    Vec<f32> => |values| Self::Floats(values),
    Tensor => |tensor| Self::Tensor(tensor),
    Graph => |graph| Self::Graph(Box::new(graph)),
);
