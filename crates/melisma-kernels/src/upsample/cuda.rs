//! Arguments of `upsample.cu`.

use std::ffi::c_void;

use super::Upsample;
use crate::cuda::layer::{
    MemoryArgument, SnakeArgument, SnakeTable, StepArgument, TimelineArgument, Upload, address, n_columns,
};
use crate::cuda::product::{CHUNK_K, Product};
use crate::cuda::{Address, Cuda, CudaQueue, Source};
use crate::step::{Arena, Step, Timeline};
use crate::view::{CudaView, CudaViewMut};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "upsample", text: include_str!("upsample.cu") };

/// `Shape` of `upsample.cu`.
#[repr(C)]
struct Shape {
    step: StepArgument,
    timeline: TimelineArgument,
    memory: MemoryArgument,
    snake: SnakeArgument,
    x_dev: Address,
    bias_dev: Address,
    y_dev: Address,
    n_columns: u32,
    n_in: u32,
    n_out: u32,
    stride: u32,
    padded_in: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    n_out: usize,
    stride: usize,
    snake: SnakeTable,
    /// Once for each phase: `[s, C_out]`.
    bias: Tensor,
    product: Product,
}

impl Prepared {
    pub(super) fn new(layer: &Upsample<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let Upsample { n_in, n_out, stride, weight, .. } = *layer;
        let upload = Upload::new(cuda, budget)?;
        let padded_in = n_in.next_multiple_of(CHUNK_K);
        let shape = [stride * n_out, 2 * padded_in];
        let product = Product::new(cuda, &upload, (SOURCE, "upsample"), shape, |m, k| {
            // The first half of K is that of z[q-1].
            let (input, tap) = if k < padded_in { (k, 1) } else { (k - padded_in, 0) };
            let (phase, output) = (m / n_out, m % n_out);
            if input < n_in { weight[((output * stride + phase) * n_in + input) * 2 + tap] } else { 0.0 }
        })?;
        let snake = SnakeTable::new(&upload, layer.alpha, padded_in)?;
        Ok(Self { n_in, n_out, stride, snake, bias: upload.slice(&layer.bias.repeat(stride))?, product })
    }

    /// Rows and channels of its memory.
    pub(super) fn memory(&self) -> [usize; 2] {
        [1, self.n_in]
    }

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        step: Step<'_>,
        timeline: Timeline,
        arena: Arena<'_>,
        (x, y): (CudaView<'_, f32>, CudaViewMut<'_, f32>),
    ) -> Result<()> {
        if step.rows.is_empty() {
            return Ok(());
        }
        let n_columns = n_columns(step, timeline.rate / self.stride)?;
        let mut shape = Shape {
            step: StepArgument::new(step)?,
            timeline: timeline.into(),
            memory: MemoryArgument::new(arena, self.memory())?,
            snake: self.snake.argument()?,
            x_dev: x.address_dev,
            bias_dev: address::<f32>(&self.bias)?,
            y_dev: y.address_dev,
            n_columns,
            n_in: self.n_in as u32,
            n_out: self.n_out as u32,
            stride: self.stride as u32,
            padded_in: self.n_in.next_multiple_of(CHUNK_K) as u32,
        };
        // SAFETY: the plan checked views and arena against the step; the weights are this layer's.
        unsafe { self.product.run(queue, n_columns, (&raw mut shape).cast::<c_void>()) }
    }
}
