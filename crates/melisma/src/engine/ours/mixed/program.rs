//! Programs: steps over numbered slots.

use std::sync::Arc;
use std::time::Instant;

use ::rten::{RunOptions, ThreadPool, Value};
use melisma_kernels::conv::Plan;
use melisma_kernels::{Queue, View, ViewMut};
use rten_tensor::prelude::*;
use rten_tensor::{Tensor, TensorView};

use super::NAME;
use super::piece::Piece;
use super::slot::Slots;
use crate::engine::Operator;
use crate::{Error, Result};

/// Buffers of at least this many floats are reused.
const LEAST_REUSED: usize = 16 << 10;
const MAX_SPARE: usize = 8;

/// A graph, or a branch of one.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
}

/// A step, and the slots that no later step reads.
#[derive(Debug)]
pub(super) struct Step {
    pub work: Work,
    pub last: Vec<usize>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a program has few steps, and nothing moves them while it runs")]
pub(super) enum Work {
    Piece(Piece),
    Window(Window),
    Branch(Box<Branch>),
}

/// One of our convolutions.
#[derive(Debug)]
pub(super) struct Window {
    pub plan: Plan,
    pub label: String,
    /// The graph operators that it implements.
    pub operator: &'static str,
    /// Number of axes of its input.
    pub n_axes: usize,
    pub from: usize,
    pub to: usize,
}

/// An `If`.
#[derive(Debug)]
pub(super) struct Branch {
    pub condition: usize,
    pub label: String,
    /// The programs for a true and a false condition.
    pub ways: [Program; 2],
    /// Slots that it reads from the surrounding graph.
    pub reads: Vec<usize>,
    pub to: Vec<usize>,
}

impl Work {
    pub(super) fn reads(&self) -> Vec<usize> {
        match self {
            Self::Piece(piece) => piece.reads().collect(),
            Self::Window(window) => vec![window.from],
            Self::Branch(branch) => branch.reads.clone(),
        }
    }

    pub(super) fn writes(&self) -> &[usize] {
        match self {
            Self::Piece(piece) => piece.writes(),
            Self::Window(window) => std::slice::from_ref(&window.to),
            Self::Branch(branch) => &branch.to,
        }
    }
}

/// Working memory of programs, reused between runs.
pub(super) struct Memory {
    values: Slots,
    queue: Queue,
    pool: Arc<ThreadPool>,
    /// Free buffers.
    spare: Vec<Vec<f32>>,
    /// Times of our kernels, if recorded.
    pub times: Option<Vec<Operator>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Memory {
    pub(super) fn new(n_slots: usize, queue: Queue, pool: Arc<ThreadPool>) -> Self {
        Self { values: Slots::new(n_slots), queue, pool, spare: Vec::new(), times: None }
    }

    /// Runs the whole program once.
    pub(super) fn run(&mut self, program: &Program, inputs: Vec<Value>) -> Result<Vec<Value>> {
        self.values.clear_all();
        program.inputs.iter().zip(inputs).for_each(|(&slot, value)| self.values.set(slot, value));
        self.steps(program)?;
        program.outputs.iter().enumerate().map(|(at, _)| self.values.output(&program.outputs, at)).collect()
    }

    fn steps(&mut self, program: &Program) -> Result<()> {
        for Step { work, last } in &program.steps {
            match work {
                Work::Piece(piece) => {
                    let is_timed = self.times.is_some();
                    let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
                    let options = options.with_timing(is_timed).with_timing_by_shape(is_timed);
                    piece.run(&mut self.values, last, options)?;
                }
                Work::Window(window) => {
                    let start = Instant::now();
                    self.window(window).map_err(|error| error.at(&window.label))?;
                    if let Some(times) = &mut self.times {
                        let (name, seconds) = (window.operator.to_owned(), start.elapsed().as_secs_f64());
                        Operator::add(times, [Operator { name, seconds, calls: 1 }]);
                    }
                }
                Work::Branch(branch) => self.branch(branch).map_err(|error| error.at(&branch.label))?,
            }
            for &slot in last {
                if let Some(Value::FloatTensor(tensor)) = self.values.clear(slot)
                    && tensor.len() >= LEAST_REUSED
                    && self.spare.len() < MAX_SPARE
                {
                    self.spare.push(tensor.into_non_contiguous_data());
                }
            }
        }
        Ok(())
    }

    fn window(&mut self, window: &Window) -> Result<()> {
        let Value::FloatTensor(x) = self.values.get(window.from)? else {
            return Err(Error::invalid("its input is not of floats"));
        };
        let shape = x.shape().to_vec();
        let [n_in, n_out] = window.plan.channels();
        let (n_images, size) = match *shape.as_slice() {
            [batch, channels, len] if window.n_axes == 3 && channels == n_in => (batch, [1, len]),
            [batch, channels, rows, columns] if window.n_axes == 4 && channels == n_in => (batch, [rows, columns]),
            _ => {
                let n_axes = window.n_axes;
                let message = format!("its input is {shape:?}; its weights are for {n_axes} axes and {n_in} channels");
                return Err(Error::invalid(message));
            }
        };
        let output = window.plan.output_size(size)?;
        let len = [n_out, output[0], output[1]].into_iter().try_fold(n_images, usize::checked_mul);
        let len = len.ok_or_else(|| Error::invalid(format!("its output of {output:?} is too large")))?;
        let mut y = buffer(&mut self.spare, len)?;
        let x: TensorView<'_, f32> = x.view();
        let x = x.to_contiguous();
        window.plan.run(&self.queue, size, View::from(x.data()), ViewMut::from(y.as_mut_slice()))?;
        let mut shape = vec![n_images, n_out];
        shape.extend(&output[4 - window.n_axes..]);
        let value: Tensor<f32> =
            Tensor::try_from_data(shape.as_slice(), y).map_err(|error| Error::invalid(error.to_string()))?;
        self.values.set(window.to, Value::FloatTensor(value));
        Ok(())
    }

    fn branch(&mut self, branch: &Branch) -> Result<()> {
        let holds = match self.values.get(branch.condition)? {
            Value::Int32Tensor(tensor) if tensor.len() == 1 => tensor.iter().any(|&value| value != 0),
            _ => return Err(Error::invalid("its condition is not one truth value")),
        };
        let way = &branch.ways[usize::from(!holds)];
        self.steps(way)?;
        for (at, &to) in branch.to.iter().enumerate().take(way.outputs.len()) {
            let value = self.values.output(&way.outputs, at)?;
            self.values.set(to, value);
        }
        Ok(())
    }
}

/// Returns `len` floats with arbitrary contents, from a free buffer if one is large enough. Much
/// larger buffers are skipped: they would be cut and then missing in the next run.
fn buffer(spare: &mut Vec<Vec<f32>>, len: usize) -> Result<Vec<f32>> {
    let fitting =
        spare.iter().enumerate().filter(|(_, buffer)| (len..=len.saturating_add(len / 4)).contains(&buffer.len()));
    if let Some((at, _)) = fitting.min_by_key(|(_, buffer)| buffer.len()) {
        let mut buffer = spare.swap_remove(at);
        buffer.truncate(len);
        return Ok(buffer);
    }
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).map_err(|_| {
        Error::new(crate::ErrorKind::Memory, format!("{NAME}: no memory for an output of {len} floats"))
    })?;
    buffer.resize(len, 0.0);
    Ok(buffer)
}
