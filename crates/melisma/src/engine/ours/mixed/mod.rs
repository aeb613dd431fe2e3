//! Combines our convolutions with the operators of the embedded engine. Dense convolutions of
//! signals and images run in our kernel, fused with a following ReLU; the pieces of the graph
//! between them run in `rten`. Branches of an `If` are split too.
//!
//! This engine is for graphs that [`chain`](super::chain) rejects. Each piece is a separate model,
//! and values pass between pieces without a copy.

mod piece;
mod program;
mod scope;
mod slot;
mod split;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use ::rten::ThreadPool;
use melisma_kernels::Budget;

use crate::engine::rten::{self, adapt, convert, guarded};
use crate::engine::{Engine, EngineName, Operator, Options, Ports, check_inputs};
use crate::format::Value;
use crate::onnx::Model;
use crate::onnx::pass;
use crate::{Error, Result};
use program::{Memory, Program};

/// The engine's name.
pub const NAME: EngineName = EngineName::MelismaMixed;

/// A model that runs partly in our kernels and partly in the embedded engine.
#[derive(Debug)]
pub struct Mixed {
    program: Program,
    memory: Memory,
    pool: Pool,
    ports: Ports,
}

struct Pool(Arc<ThreadPool>);

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

/// Prepares a model; packed weights and scratch memory of our kernels count against `budget`.
///
/// # Errors
/// `Unsupported` names features that the embedded engine lacks, or says that there is no
/// convolution to speed up; `Memory` if the budget is too small.
pub fn build(model: &Model, options: &Options, budget: &Budget) -> Result<Mixed> {
    let ports = rten::check(model)?;
    let mut model = adapt::adapted(model.clone())?;
    pass::fold_constants(&mut model, &rten::evaluate)?;
    if model.graph.n_nodes() > rten::MAX_SHALLOW {
        return Err(Error::unsupported(format!("{NAME}: too many nodes: at most {}", rten::MAX_SHALLOW)));
    }
    crate::runtime::thread::probe(options.threads.max(1))?;
    let pool = Arc::new(ThreadPool::with_num_threads(options.threads.max(1)));
    let device = super::device(options)?;
    let queue = device.queue(budget)?;
    let split = guarded(&pool, || split::split(&model, &window::Maker { device: &device, budget }))??;
    if split.n_windows == 0 {
        return Err(Error::unsupported(format!("{NAME}: the graph has no dense convolution with constant weights")));
    }
    let memory = Memory::new(split.n_slots, queue, Arc::clone(&pool));
    Ok(Mixed { program: split.program, memory, pool: Pool(pool), ports })
}

impl Engine for Mixed {
    fn name(&self) -> EngineName {
        NAME
    }

    fn ports(&self) -> &Ports {
        &self.ports
    }

    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.go(inputs)
    }

    /// Runs the model; the embedded engine prints the times of its pieces.
    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        check_inputs(self.inputs(), inputs)?;
        self.memory.times = Some(Vec::new());
        let outputs = self.go(inputs);
        let times = self.memory.times.take().unwrap_or_default();
        Ok((outputs?, times))
    }
}

impl Mixed {
    fn go(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        let values = self.ports.inputs.iter().zip(inputs).map(|(port, value)| convert::to_engine(&port.name, value));
        let values = values.collect::<Result<Vec<_>>>()?;
        let (program, memory) = (&self.program, &mut self.memory);
        // Everything runs on the pool's threads, so that pieces do not have to switch threads.
        let results = guarded(&self.pool.0, || memory.run(program, values))??;
        self.ports.outputs.iter().zip(results).map(|(port, value)| convert::from_engine(port, value)).collect()
    }
}
