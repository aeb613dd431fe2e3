//! Inputs and outputs of a model.

use std::collections::HashSet;

use crate::format::Value;
use crate::onnx::{Dim, Model, ValueType};
use crate::{DType, Error, Result};

/// The inputs and outputs of a model, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ports {
    /// The inputs of a run.
    pub inputs: Vec<Port>,
    /// The outputs of a run.
    pub outputs: Vec<Port>,
}

impl Ports {
    /// Returns the ports of `model`.
    ///
    /// # Errors
    /// `Unsupported` for an input or output that is not a tensor of numbers.
    pub fn of(model: &Model) -> Result<Self> {
        Ok(Self { inputs: Port::inputs(model)?, outputs: Port::outputs(model)? })
    }

    /// Returns the input called `name`.
    ///
    /// # Errors
    /// The input is unknown; the hint lists the existing ones.
    pub fn input(&self, name: &str) -> Result<&Port> {
        let found = self.inputs.iter().find(|port| port.name == name);
        found.ok_or_else(|| Error::invalid(format!("no input is called `{name}`")).with_hint(self.takes()))
    }

    /// Checks values given by name, and puts them into the order of the inputs.
    ///
    /// # Errors
    /// An input is unknown, missing, given twice, or its value does not fit.
    pub fn arrange(&self, named: Vec<(String, Value)>) -> Result<Vec<Value>> {
        let mut values: Vec<Option<Value>> = vec![None; self.inputs.len()];
        for (name, value) in named {
            self.input(&name)?.check(&value)?;
            let place = self.inputs.iter().zip(&mut values).find(|(port, _)| port.name == name);
            if place.is_some_and(|(_, place)| place.replace(value).is_some()) {
                return Err(Error::invalid(format!("`{name}` is given twice")).with_hint("leave one of them out"));
            }
        }
        let missing = |port: &Port| Error::invalid(format!("`{}` is missing", port.name)).with_hint(self.takes());
        self.inputs.iter().zip(values).map(|(port, value)| value.ok_or_else(|| missing(port))).collect()
    }

    /// Describes the inputs for hints.
    pub fn takes(&self) -> String {
        let ports: Vec<String> = self.inputs.iter().map(|port| format!("{}={}", port.name, port.describe())).collect();
        format!("the model takes {}", if ports.is_empty() { "no inputs".to_owned() } else { ports.join(", ") })
    }
}

/// An input or an output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its axes; `None` if the model does not declare them.
    pub shape: Option<Vec<Dim>>,
}

impl Port {
    /// Returns the inputs of a model, in order, without initializers.
    ///
    /// # Errors
    /// `Unsupported` for an input that is not a tensor of numbers.
    pub fn inputs(model: &Model) -> Result<Vec<Self>> {
        let constants: HashSet<&str> = model.graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs = model.graph.inputs.iter().filter(|input| !constants.contains(input.name.as_str()));
        inputs.map(|input| Self::new(&input.name, &input.r#type)).collect()
    }

    /// Returns the outputs of a model, in order.
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

    /// Checks whether `value` fits.
    ///
    /// # Errors
    /// `InvalidArgument` names the port, the expected and the actual value.
    pub fn check(&self, value: &Value) -> Result<()> {
        let fits = |shape: &[Dim]| {
            let same = |(dim, &len): (&Dim, &usize)| !matches!(dim, Dim::Known(known) if *known != len as i64);
            shape.len() == value.shape().len() && shape.iter().zip(value.shape()).all(same)
        };
        if value.dtype() == self.dtype && self.shape.as_deref().is_none_or(fits) {
            return Ok(());
        }
        Err(Error::invalid(format!("input `{}`: {} is expected, not {value:?}", self.name, self.describe()))
            .with_hint("the element type and every axis must fit; an axis with a name may have any length"))
    }

    /// Returns whether the model fixes the length of every axis.
    pub fn is_fixed(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.iter().all(|dim| matches!(dim, Dim::Known(_))))
    }

    /// Returns the type and shape as text: `f32[1, 80, T]`.
    pub fn describe(&self) -> String {
        let axes = self.shape.as_ref().map(|shape| {
            let axes: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("[{}]", axes.join(", "))
        });
        format!("{}{}", self.dtype.name(), axes.as_deref().unwrap_or("[...]"))
    }
}

/// Checks that there is one valid value per port.
///
/// # Errors
/// `InvalidArgument` for a wrong number of values or one that does not fit.
pub fn check_inputs(ports: &[Port], values: &[Value]) -> Result<()> {
    if ports.len() != values.len() {
        return Err(Error::invalid(format!("the model takes {} inputs, not {}", ports.len(), values.len())));
    }
    ports.iter().zip(values).try_for_each(|(port, value)| port.check(value))
}
