//! Grid and arguments of `noise.cu`.

use crate::device::cuda::{Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{STEP, StepArgument};
use crate::layer::step::{Step, Timeline};
use crate::memory::view::CudaViewMut;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments, blocks};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "noise", text: include_str!("noise.cu"), headers: &[DEVICE, STEP] };

#[derive(Debug)]
pub(super) struct Prepared {
    n_blocks: usize,
    most_rate: usize,
    /// `Block` of `noise.cu`: rate and lag in one word, then the deviates before it.
    table: Tensor,
    function: Function,
}

impl Prepared {
    pub(super) fn new(timelines: &[Timeline], cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let mut before = 0;
        let mut table = Vec::new();
        for timeline in timelines {
            table.extend([(timeline.rate as u32 as i64) | ((timeline.lag as i64) << 32), before]);
            before += timeline.rate as i64;
        }
        Ok(Self {
            n_blocks: timelines.len(),
            most_rate: timelines.iter().map(|timeline| timeline.rate).max().unwrap_or(0),
            table: Upload::new(cuda, budget)?.slice(&table)?,
            function: cuda.function(SOURCE, "noise_f32")?,
        })
    }

    pub(super) fn run(&self, queue: &CudaQueue, step: Step<'_>, deviates: CudaViewMut<'_, f32>) -> Result<()> {
        if deviates.len == 0 {
            return Ok(());
        }
        let argument = StepArgument::new(step)?;
        let (table_dev, deviates_dev) = (address::<i64>(&self.table)?, deviates.address_dev);
        let grid = (blocks(queue, step.n_columns(self.most_rate)), self.n_blocks as u32, 1);
        let launch = Launch { grid, block: (256, 1, 1), shared_bytes: 0 };
        // SAFETY: the plan checked that `deviates` holds all blocks of the step.
        unsafe { queue.launch(&self.function, launch, arguments![argument, table_dev, deviates_dev]) }
    }
}
