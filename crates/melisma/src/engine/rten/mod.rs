//! The embedded engine: the `rten` crate, always available.
//!
//! It computes in FP32 and with 32-bit integers. 16-bit floats are widened on input and rounded on
//! output; 64-bit integers and booleans pass through if they fit. Models that it would compute
//! wrongly are rejected. A panic in the crate becomes an error.

pub(super) mod adapt;
pub(super) mod convert;
mod evaluate;
pub(super) mod operators;
mod panic;
pub(crate) mod profile;
mod rewrite;

use std::sync::Arc;

use ::rten::{ModelOptions, NodeId, RunOptions, ThreadPool, ValueOrView};

use super::{Engine, EngineName, Operator, Options, Port, Ports, Weights, check_inputs};
use crate::format::Value;
use crate::onnx::{Detached, Model};
use crate::{Error, Result};

#[doc(hidden)]
pub use evaluate::evaluate;

pub(super) use panic::{MAX_SHALLOW, guarded};

/// The engine's name.
#[doc(hidden)]
pub const NAME: EngineName = EngineName::Rten;
/// The crate's version; engines depend on it.
#[doc(hidden)]
pub const VERSION: &str = "0.27";

/// A model in the embedded engine.
pub struct Rten {
    model: ::rten::Model,
    pool: Arc<ThreadPool>,
    ports: Ports,
    input_ids: Vec<NodeId>,
    output_ids: Vec<NodeId>,
    nodes: Vec<panic::Suspect>,
}

/// Prepares a model.
///
/// # Errors
/// `Unsupported` names the operators, types and values that the engine lacks.
pub fn build(model: &Model, options: &Options) -> Result<Rten> {
    build_from(model.clone(), options)
}

/// Works like [`build`], but consumes the model: its weights are moved, not copied.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_from(model: Model, options: &Options) -> Result<Rten> {
    let ports = check(&model)?;
    let nodes = panic::suspects(&model);
    let pool = Arc::new(panic::pool(options.threads.max(1))?);
    let parts = adapt::adapted(model)?.detached()?;
    let model = panic::guarded_at(&pool, &nodes, || load(parts, options.weights))??;
    let id = |port: &Port| {
        model.node_id(&port.name).map_err(|error| Error::unsupported(format!("{NAME}: `{}`: {error}", port.name)))
    };
    let input_ids = ports.inputs.iter().map(id).collect::<Result<_>>()?;
    let output_ids = ports.outputs.iter().map(id).collect::<Result<_>>()?;
    Ok(Rten { model, pool, ports, input_ids, output_ids, nodes })
}

/// Returns the inputs and outputs of a model, after all checks that do not need a run.
///
/// # Errors
/// As [`build`].
#[doc(hidden)]
pub fn check(model: &Model) -> Result<Ports> {
    let ports = Ports::of(model)?;
    operators::check(model)?;
    panic::check_depth(&model.graph)?;
    ports.inputs.iter().chain(&ports.outputs).try_for_each(convert::check)?;
    Ok(ports)
}

/// Converts a model in parts to the crate's model.
pub(super) fn load(parts: Detached, weights: Weights) -> Result<::rten::Model> {
    let mut options = ModelOptions::with_all_ops();
    for (file, bytes) in parts.tensors {
        options.external_data(&file, bytes);
    }
    let loaded = options.prepack_weights(weights == Weights::Packed).load(parts.graph);
    loaded.map_err(|error| Error::unsupported(format!("{NAME}: {error}")))
}

impl Engine for Rten {
    fn name(&self) -> EngineName {
        NAME
    }

    fn ports(&self) -> &Ports {
        &self.ports
    }

    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.run_with(inputs, RunOptions::default())
    }

    /// Runs the model; the crate prints its times.
    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        check_inputs(self.inputs(), inputs)?;
        let options = RunOptions::default().with_timing(true).with_timing_by_shape(true);
        Ok((self.run_with(inputs, options)?, Vec::new()))
    }

    fn trace(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        check_inputs(self.inputs(), inputs)?;
        self.run_with(inputs, RunOptions::default().with_verbose(true))
    }
}

impl Rten {
    fn run_with(&self, inputs: &[Value], options: RunOptions) -> Result<Vec<Value>> {
        let values = self.ports.inputs.iter().zip(inputs).map(|(port, value)| convert::to_engine(&port.name, value));
        let values = values.collect::<Result<Vec<_>>>()?;
        let fed = self.input_ids.iter().copied().zip(values.into_iter().map(ValueOrView::Value)).collect();
        let options = options.with_thread_pool(Some(Arc::clone(&self.pool)));
        let run = || self.model.run(fed, &self.output_ids, Some(options));
        let results = panic::guarded_at(&self.pool, &self.nodes, run)?;
        let results = results.map_err(|error| Error::invalid(format!("{NAME}: {error}")))?;
        self.ports.outputs.iter().zip(results).map(|(port, value)| convert::from_engine(port, value)).collect()
    }
}

impl std::fmt::Debug for Rten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rten").field("ports", &self.ports).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
