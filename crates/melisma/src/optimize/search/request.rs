//! The request for a search.

use std::path::PathBuf;
use std::str::FromStr;

use super::Requirements;
use crate::format::{Value, npy};
use crate::{Error, Result};

/// The seed of generated inputs.
pub const SEED: u64 = 0x6d65_6c69_736d_6121;

/// The request for a search.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// The model's file.
    pub model: PathBuf,
    /// Shapes or values of its inputs; inputs whose shape the model fixes may be left out.
    pub inputs: Vec<Given>,
    /// The requirements on the engine.
    pub requirements: Requirements,
    /// A folder of inputs for measuring accuracy.
    pub calibrate: Option<PathBuf>,
    /// Whether a cached engine is replaced by a new search.
    pub remeasure: bool,
}

impl Request {
    /// Asks for the best engine for the file `model` that meets `requirements`.
    pub fn new(model: impl Into<PathBuf>, requirements: Requirements) -> Self {
        Self { model: model.into(), inputs: Vec::new(), requirements, calibrate: None, remeasure: false }
    }

    setters! {
        /// Sets shapes or values of the inputs.
        pub fn with_inputs(inputs: Vec<Given>);
        /// Sets a folder of inputs for measuring accuracy.
        pub fn with_calibrate(calibrate: impl Into<Option<PathBuf>>);
        /// Sets whether a cached engine is replaced by a new search.
        pub fn with_remeasure(remeasure: bool);
    }
}

/// An input as given by the user: `NAME=SHAPE` or `NAME=FILE.npy`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Given {
    /// The input's name.
    pub name: String,
    /// Its shape or values.
    pub content: Content,
}

impl Given {
    /// Returns the input `name` with this content.
    pub fn new(name: impl Into<String>, content: Content) -> Self {
        Self { name: name.into(), content }
    }
}

/// A shape, or a file of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The extents of its axes.
    Shape(Vec<usize>),
    /// An array in a file.
    File(PathBuf),
    /// An array.
    Array(Value),
}

impl FromStr for Given {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid(format!("input `{text}`: {what}"))
                .with_hint("write NAME=SHAPE such as mel=1x80x3000, or NAME=FILE.npy")
        };
        let (name, content) = text.split_once('=').ok_or_else(|| wrong("`=` is missing"))?;
        if name.is_empty() {
            return Err(wrong("the name is missing"));
        }
        if content.ends_with(".npy") {
            return Ok(Self { name: name.to_owned(), content: Content::File(content.into()) });
        }
        let axes = content.split(['x', ',']).filter(|axis| !axis.is_empty());
        let shape = axes.map(|axis| axis.trim().parse::<usize>().map_err(|_| wrong("this is not a shape")));
        Ok(Self { name: name.to_owned(), content: Content::Shape(shape.collect::<Result<_>>()?) })
    }
}

impl Content {
    /// Returns the shape, or the shape of the array in the file.
    pub(super) fn shape(&self) -> Result<Vec<usize>> {
        match self {
            Self::Shape(shape) => Ok(shape.clone()),
            Self::File(path) => Ok(npy::read(path)?.shape().to_vec()),
            Self::Array(value) => Ok(value.shape().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_files_are_told_apart() {
        let given = |text: &str| text.parse::<Given>();
        assert_eq!(given("x=1x80x3000").unwrap().content, Content::Shape(vec![1, 80, 3000]));
        assert_eq!(given("x=1,80").unwrap().content, Content::Shape(vec![1, 80]));
        assert_eq!(given("sr=").unwrap().content, Content::Shape(vec![]));
        assert_eq!(given("a:b=in.npy").unwrap().content, Content::File("in.npy".into()));
        for text in ["", "x", "=1x2", "x=1xT", "x=-1"] {
            assert!(given(text).is_err(), "{text}");
        }
    }
}
