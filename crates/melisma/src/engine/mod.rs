//! Engines run models. An engine is built from a [`Model`](crate::onnx::Model) once and run many
//! times.
//!
//! ```
//! use melisma::engine::{Engine, Options, rten};
//! use melisma::DType;
//! use melisma::format::Value;
//! use melisma::onnx::{Dim, Graph, Model, Node, Opset, ValueInfo};
//! use melisma::optimize::search::{Accuracy, compare};
//!
//! let port = |name| ValueInfo::tensor(name, DType::F32.code(), &[Dim::Open]);
//! let graph = Graph {
//!     name: "rectifier".to_owned(),
//!     nodes: vec![Node::new("Relu", &["x"], &["y"])],
//!     inputs: vec![port("x")],
//!     outputs: vec![port("y")],
//!     ..Graph::default()
//! };
//! let opsets = vec![Opset { domain: String::new(), version: 17 }];
//! let model = Model { ir_version: 8, opsets, graph, ..Model::default() }.checked()?;
//! let mut engine = rten::build(&model, &Options::default())?;
//! let outputs = engine.run(&[Value::from_slice(&[-1.0f32, 2.0], &[2])?])?;
//! let expected = [Value::from_slice(&[0.0f32, 2.0], &[2])?];
//! assert_eq!(compare(&outputs, &expected)?, Accuracy::EXACT);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! [`Model::open`](crate::onnx::Model::open) reads a model from a file. [`Ports::arrange`] puts named values in the order of
//! the inputs; [`Engine::ports`] gives the ports of an engine.

pub(crate) mod chunked;
mod name;
pub(crate) mod need;
#[doc(hidden)]
pub mod onnxruntime;
#[doc(hidden)]
pub mod ours;
mod port;
pub mod rten;

use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use name::EngineName;
use port::check_inputs;
pub use port::{Port, Ports};

use crate::Result;
use crate::config::precision::Format;
use crate::format::Value;

/// A model that is ready to run.
pub trait Engine: Send {
    /// Returns the engine's name.
    fn name(&self) -> EngineName;

    /// Returns the inputs and outputs of a run.
    fn ports(&self) -> &Ports;

    /// Returns the inputs, in order.
    fn inputs(&self) -> &[Port] {
        &self.ports().inputs
    }

    /// Returns the outputs, in order.
    fn outputs(&self) -> &[Port] {
        &self.ports().outputs
    }

    /// Runs the model once, with one value per input, in the order of [`Engine::inputs`].
    ///
    /// # Errors
    /// `InvalidArgument` for values that do not fit the inputs; otherwise the engine failed.
    fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        let _span = tracing::info_span!("execute", engine = self.name().as_str()).entered();
        check_inputs(self.inputs(), inputs)?;
        self.execute(inputs)
    }

    /// Runs once with inputs that are already checked.
    ///
    /// # Errors
    /// The engine failed.
    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>>;

    /// Runs `n` times and returns the seconds of each run, after `check` before each. An engine in a process of its own
    /// starts it once, runs there once more first, and leaves out the way there and back.
    ///
    /// # Errors
    /// As [`Engine::run`], and those of `check`.
    fn repeat(&mut self, inputs: &[Value], n: usize, check: &dyn Fn() -> Result<()>) -> Result<Vec<f64>> {
        let mut seconds = Vec::new();
        for _ in 0..n {
            check()?;
            let begin = Instant::now();
            self.run(inputs)?;
            seconds.push(begin.elapsed().as_secs_f64());
        }
        Ok(seconds)
    }

    /// Runs once and returns the time per operator. Engines that can only print it write lines of
    /// the form `NAME 12.34ms (56.78%)` to standard output, so call this in a separate process and
    /// parse its output.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        Ok((self.run(inputs)?, Vec::new()))
    }

    /// Runs once and prints each node as it finishes, if the engine can. The output shows how far a
    /// killed process got.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn trace(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.run(inputs)
    }

    /// Returns the times of all profiled runs, for engines that report them only when recording
    /// ends.
    ///
    /// # Errors
    /// The engine failed, or wrote an unreadable profile.
    fn end_profile(&mut self) -> Result<Vec<Operator>> {
        Ok(Vec::new())
    }
}

/// All nodes of one operator, added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Seconds in one run.
    pub seconds: f64,
    /// How many times its nodes ran.
    pub calls: u64,
}

impl Operator {
    /// Adds times and calls to the entries of the same name.
    pub fn add(all: &mut Vec<Self>, more: impl IntoIterator<Item = Self>) {
        for operator in more {
            match all.iter_mut().find(|known| known.name == operator.name) {
                Some(known) => {
                    known.seconds += operator.seconds;
                    known.calls = known.calls.saturating_add(operator.calls);
                }
                None => all.push(operator),
            }
        }
    }
}

/// Configuration of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Options {
    /// CPU threads; 0 is ONNX Runtime's own default, and 1 in other engines.
    pub threads: usize,
    /// The format that the model was converted to, for engines that compute in it.
    pub precision: Format,
    /// How the embedded engine stores the weights of matrix products.
    pub weights: Weights,
}

/// How the weights of matrix products are stored. Both give the same results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Weights {
    /// With a second copy in the order in which products read them: faster.
    #[default]
    Packed,
    /// Without a copy: less memory.
    Plain,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 1, precision: Format::Fp32, weights: Weights::Packed }
    }
}

impl Options {
    setters! {
        /// Sets the number of CPU threads; 0 is ONNX Runtime's own default, and 1 in other engines.
        pub fn with_threads(threads: usize);
        /// Sets the format that the model was converted to.
        pub fn with_precision(precision: Format);
        /// Sets how the embedded engine stores the weights of matrix products.
        pub fn with_weights(weights: Weights);
    }
}
