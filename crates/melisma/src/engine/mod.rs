//! Engines: what runs a model. Each is made from a [`Model`] once and run many times.

pub(crate) mod chunked;
pub mod onnxruntime;
pub mod ours;
pub mod rten;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::format::{DType, Value};
use crate::onnx::{Dim, Model, ValueType};
use crate::runtime::precision::Format;
use crate::{Error, Result};

/// A model, ready to run.
pub trait Engine: Send {
    /// The engine's name, as `--engine` takes it.
    fn name(&self) -> &'static str;

    /// What a run takes, in order.
    fn inputs(&self) -> &[Port];

    /// What a run gives, in order.
    fn outputs(&self) -> &[Port];

    /// One run: a value for every input, in the order of [`Engine::inputs`].
    ///
    /// # Errors
    /// `InvalidArgument` for values that do not fit the inputs; otherwise the engine failed.
    fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>>;

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

/// An input or an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its axes; none where the model does not say how many there are.
    pub shape: Option<Vec<Dim>>,
}

impl Port {
    /// The inputs of a model that are not initialisers, in order.
    ///
    /// # Errors
    /// `Unsupported` for an input that is not a tensor of numbers.
    pub fn inputs(model: &Model) -> Result<Vec<Self>> {
        let constants: HashSet<&str> = model.graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs = model.graph.inputs.iter().filter(|input| !constants.contains(input.name.as_str()));
        inputs.map(|input| Self::new(&input.name, &input.r#type)).collect()
    }

    /// The outputs of a model, in order.
    ///
    /// # Errors
    /// `Unsupported` for an output that is not a tensor of numbers.
    pub fn outputs(model: &Model) -> Result<Vec<Self>> {
        model.graph.outputs.iter().map(|output| Self::new(&output.name, &output.r#type)).collect()
    }

    fn new(name: &str, r#type: &ValueType) -> Result<Self> {
        let ValueType::Tensor { dtype, shape } = r#type else {
            return Err(Error::unsupported(format!("`{name}` is not a tensor")));
        };
        let dtype = DType::from_code(*dtype).map_err(|error| error.at(format!("`{name}`")))?;
        Ok(Self { name: name.to_owned(), dtype, shape: shape.clone() })
    }

    /// Whether `value` fits.
    ///
    /// # Errors
    /// `InvalidArgument` names the port, what it takes and what it got.
    pub fn check(&self, value: &Value) -> Result<()> {
        let fits = |shape: &[Dim]| {
            let same = |(dim, &len): (&Dim, &usize)| !matches!(dim, Dim::Known(known) if *known != len as i64);
            shape.len() == value.shape().len() && shape.iter().zip(value.shape()).all(same)
        };
        if value.dtype() == self.dtype && self.shape.as_deref().is_none_or(fits) {
            return Ok(());
        }
        Err(Error::invalid(format!("input `{}`: {} is expected, not {value:?}", self.name, self.describe())))
    }

    /// Whether the model says the length of every axis.
    pub fn is_fixed(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.iter().all(|dim| matches!(dim, Dim::Known(_))))
    }

    /// Type and shape for people: `f32[1, 80, T]`.
    pub fn describe(&self) -> String {
        let axes = self.shape.as_ref().map(|shape| {
            let axes: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("[{}]", axes.join(", "))
        });
        format!("{}{}", self.dtype.name(), axes.as_deref().unwrap_or("[...]"))
    }
}

/// Checks that there is one fitting value for each port.
///
/// # Errors
/// `InvalidArgument` for a wrong number of values or one that does not fit.
pub fn check_inputs(ports: &[Port], values: &[Value]) -> Result<()> {
    if ports.len() != values.len() {
        return Err(Error::invalid(format!("the model takes {} inputs, not {}", ports.len(), values.len())));
    }
    ports.iter().zip(values).try_for_each(|(port, value)| port.check(value))
}
