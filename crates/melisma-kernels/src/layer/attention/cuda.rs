//! Grids and arguments of `attention.cu`.

use super::{Attention, Pass};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{MemoryArgument, STEP, StepArgument, TimelineArgument};
use crate::layer::step::{Arena, Step};
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Error, Result, Tensor};

const SOURCE: Source = Source { name: "attention", text: include_str!("attention.cu"), headers: &[DEVICE, STEP] };

/// Warps per block.
const WARPS: usize = 4;
/// Shared memory that a block has by default.
const SHARED_BYTES: usize = 48 << 10;

/// `Shape` of `attention.cu`.
#[repr(C)]
struct Shape {
    step: StepArgument,
    timeline: TimelineArgument,
    keys: MemoryArgument,
    queries: MemoryArgument,
    rotation_dev: Address,
    qkv_dev: Address,
    x_dev: Address,
    mixed_dev: Address,
    skip_dev: Address,
    n_channels: u32,
    head_dim: u32,
    window: u32,
    scale: f32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    attention: Attention,
    rotation: Tensor,
    attend: Function,
    remember: Function,
}

impl Prepared {
    pub(super) fn new(attention: &Attention, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let needed = WARPS * (attention.head_dim + attention.window) * size_of::<f32>();
        if needed > SHARED_BYTES {
            return Err(Error::unsupported(format!("attention: CUDA cannot hold {attention:?}")));
        }
        let upload = Upload::new(cuda, budget)?;
        Ok(Self {
            attention: *attention,
            rotation: upload.slice(attention.rotation().as_flattened())?,
            attend: cuda.function(SOURCE, "attention_f32")?,
            remember: cuda.function(SOURCE, "attention_remember")?,
        })
    }

    /// Returns the rows and channels of both memories, keys first.
    fn memories(&self) -> [[usize; 2]; 2] {
        let (past, width) = (self.attention.window - 1, 2 * self.attention.n_channels);
        [[2 * past, width], [past, width]]
    }

    /// Returns the number of floats of state per slot.
    pub(super) fn state_len(&self) -> usize {
        self.memories().into_iter().map(MemoryArgument::state_len).sum()
    }

    pub(super) fn run(&self, queue: &CudaQueue, step: Step<'_>, arena: Arena<'_>, pass: Pass<'_>) -> Result<()> {
        if step.rows.is_empty() {
            return Ok(());
        }
        let Attention { n_channels, head_dim, window, timeline } = self.attention;
        let [keys, queries] = self.memories();
        let (keys_len, offset) = (MemoryArgument::state_len(keys), arena.offset);
        let keys = MemoryArgument::new(arena, keys)?;
        let shape = Shape {
            step: StepArgument::new(step)?,
            timeline: timeline.into(),
            keys,
            queries: keys.moved(offset + keys_len, queries),
            rotation_dev: address::<f32>(&self.rotation)?,
            qkv_dev: pass.qkv.cuda()?.address_dev,
            x_dev: pass.x.cuda()?.address_dev,
            mixed_dev: pass.mixed.cuda()?.address_dev,
            skip_dev: pass.skip.cuda()?.address_dev,
            n_channels: n_channels as u32,
            head_dim: head_dim as u32,
            window: window as u32,
            scale: 1.0 / (head_dim as f32).sqrt(),
        };
        let n_rows = step.rows.len();
        let tiles = (step.n_latents * (n_channels / head_dim)).div_ceil(WARPS);
        let attend = Launch {
            grid: (tiles as u32, n_rows.min(65_535) as u32, 1),
            block: (32 * WARPS as u32, 1, 1),
            shared_bytes: (WARPS * (head_dim + window) * size_of::<f32>()) as u32,
        };
        let remembered = n_rows * 3 * (window - 1) * 2 * n_channels;
        let remember = Launch::shared(queue, remembered);
        // SAFETY: the plan checked views and arena against the step; shared memory is as large as
        // the kernel needs.
        unsafe {
            if tiles > 0 {
                queue.launch(&self.attend, attend, arguments![shape])?;
            }
            queue.launch(&self.remember, remember, arguments![shape])
        }
    }
}
