//! Our convolutions among the operators of the embedded engine: dense convolutions of signals and images run in our own
//! kernel, with the ReLU behind them, and the pieces of the graph between them in `rten`. Branches of an `If` are taken apart too.
//!
//! This is the form of the engine `melisma` for graphs that are no chain. Each piece is a model of its own, and values go from
//! one to the next without a copy.

mod piece;
mod program;
mod scope;
mod split;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use ::rten::ThreadPool;
use melisma_kernels::{Budget, Device, Queue};

use crate::engine::rten::{self, adapt, convert, guarded};
use crate::engine::{Engine, Operator, Options, Port, check_inputs};
use crate::format::Value;
use crate::onnx::Model;
use crate::onnx::pass;
use crate::{Error, Result};
use program::{Memory, Program};

/// The name that `--engine` takes: that of our engine for chains.
pub use super::chain::NAME;

/// A model, part in our kernels and part in the embedded engine.
#[derive(Debug)]
pub struct Mixed {
    program: Program,
    memory: Memory,
    pool: Pool,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

struct Pool(Arc<ThreadPool>);

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

/// Prepares a model.
///
/// # Errors
/// `Unsupported` names what the embedded engine does not have, or says that no convolution is there to speed up.
pub fn build(model: &Model, options: &Options) -> Result<Mixed> {
    let (inputs, outputs) = rten::check(model)?;
    let mut model = adapt::adapted(model.clone())?;
    pass::fold_constants(&mut model)?;
    if model.graph.nodes.len() > rten::MOST_SHALLOW {
        return Err(Error::unsupported(format!("{NAME}: too many nodes: at most {}", rten::MOST_SHALLOW)));
    }
    let threads = options.threads.max(1);
    let pool = Arc::new(ThreadPool::with_num_threads(threads));
    let mut device = Device::cpu()?;
    if let Device::Cpu(cpu) = &mut device {
        cpu.threads = threads;
    }
    let budget = Budget::unlimited();
    let queue: Queue = device.queue(&budget)?;
    let split = guarded(&pool, || split::split(&model, &window::Maker { device: &device, budget: &budget }))??;
    if split.n_windows == 0 {
        return Err(Error::unsupported(format!("{NAME}: the graph is no chain, and has no dense convolution")));
    }
    let memory = Memory::new(split.n_slots, queue, Arc::clone(&pool));
    Ok(Mixed { program: split.program, memory, pool: Pool(pool), inputs, outputs })
}

impl Engine for Mixed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        let _span = tracing::info_span!("execute", engine = self.name()).entered();
        self.go(inputs)
    }

    /// The embedded engine prints the times of its pieces.
    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        self.memory.times = Some(Vec::new());
        let outputs = self.go(inputs);
        let times = self.memory.times.take().unwrap_or_default();
        Ok((outputs?, times))
    }
}

impl Mixed {
    fn go(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        check_inputs(&self.inputs, inputs)?;
        let values = self.inputs.iter().zip(inputs).map(|(port, value)| convert::to_engine(&port.name, value));
        let values = values.collect::<Result<Vec<_>>>()?;
        let (program, memory) = (&self.program, &mut self.memory);
        // All of it on the pool's threads, so that no piece has to go there by itself.
        let results = guarded(&self.pool.0, || memory.run(program, values))??;
        self.outputs.iter().zip(results).map(|(port, value)| convert::from_engine(port, value)).collect()
    }
}
