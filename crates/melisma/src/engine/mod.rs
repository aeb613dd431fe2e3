//! Engines: what runs a model. Each is built from a [`Model`](crate::onnx::Model) once and run many times.

pub(crate) mod chunked;
mod name;
pub mod need;
pub mod onnxruntime;
pub mod ours;
mod port;
pub mod rten;

use serde::{Deserialize, Serialize};

pub use name::EngineName;
pub use port::{Port, Ports, check_inputs};

use crate::Result;
use crate::config::precision::Format;
use crate::format::Value;

/// A model, ready to run.
pub trait Engine: Send {
    /// The engine's name.
    fn name(&self) -> EngineName;

    /// What a run takes and gives.
    fn ports(&self) -> &Ports;

    /// What a run takes, in order.
    fn inputs(&self) -> &[Port] {
        &self.ports().inputs
    }

    /// What a run gives, in order.
    fn outputs(&self) -> &[Port] {
        &self.ports().outputs
    }

    /// One run: a value for every input, in the order of [`Engine::inputs`].
    ///
    /// # Errors
    /// `InvalidArgument` for values that do not fit the inputs; otherwise the engine failed.
    fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        let _span = tracing::info_span!("execute", engine = self.name().as_str()).entered();
        check_inputs(self.inputs(), inputs)?;
        self.execute(inputs)
    }

    /// One run with inputs that were checked.
    ///
    /// # Errors
    /// The engine failed.
    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>>;

    /// One run, with the time of each operator. Code that can only print it does so on standard output, in lines
    /// `NAME 12.34ms (56.78%)`: this is for a process of its own, whose output is read.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        Ok((self.run(inputs)?, Vec::new()))
    }

    /// One run that prints each node as it ends, where the engine can: what a process did before it was ended shows there.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn trace(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.run(inputs)
    }

    /// The times of all profiled runs that the engine hands over only at the end of its recording.
    ///
    /// # Errors
    /// The engine failed, or wrote what cannot be read.
    fn end_profile(&mut self) -> Result<Vec<Operator>> {
        Ok(Vec::new())
    }
}

/// All nodes of one operator together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Seconds in one run.
    pub seconds: f64,
    /// How often nodes of it were run.
    pub calls: u64,
}

impl Operator {
    /// Adds times and calls to those of the same name.
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

/// How an engine is to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// CPU threads, at least 1.
    pub threads: usize,
    /// The format that the model was converted to, for engines that compute in it.
    pub precision: Format,
    /// How the embedded engine holds the weights of products.
    pub weights: Weights,
}

/// How the weights of products are held. Results are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Weights {
    /// Once more in the order that products read them: faster.
    #[default]
    Packed,
    /// As they are: less memory.
    Plain,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 1, precision: Format::Fp32, weights: Weights::Packed }
    }
}
