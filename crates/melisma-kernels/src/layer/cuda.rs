//! Arguments that the layers of a step pass to their kernels; mirrors `step.cuh`.

use crate::device::cuda::{Address, Header};
use crate::layer::step::{Arena, Step, Timeline};
use crate::queue::{Launch, Upload, address};
use crate::{Error, Result, Tensor};

pub(crate) const STEP: Header = Header { name: "step.cuh", text: include_str!("step.cuh") };

/// `Step` of `step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepArgument {
    rows_dev: Address,
    pub(crate) n_rows: u32,
    n_latents: u32,
}

impl StepArgument {
    pub(crate) fn new(step: Step<'_>) -> Result<Self> {
        let n_latents = u32::try_from(step.n_latents).map_err(|_| too_large(step.n_latents))?;
        Ok(Self { rows_dev: step.rows.words()?.cuda()?.address_dev, n_rows: step.rows.len() as u32, n_latents })
    }
}

/// `Timeline` of `step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimelineArgument {
    rate: u32,
    lag: u32,
}

impl From<Timeline> for TimelineArgument {
    fn from(timeline: Timeline) -> Self {
        Self { rate: timeline.rate as u32, lag: timeline.lag as u32 }
    }
}

/// `Memory` of `step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryArgument {
    arena_dev: Address,
    slot_len: u64,
    offset: u64,
    n_past: u32,
    n_channels: u32,
}

impl MemoryArgument {
    /// Returns the memory of the last `n_past` rows of `n_channels`.
    pub(crate) fn new(arena: Arena<'_>, [n_past, n_channels]: [usize; 2]) -> Result<Self> {
        Ok(Self {
            arena_dev: arena.floats.cuda()?.address_dev,
            slot_len: arena.slot_len as u64,
            offset: arena.offset as u64,
            n_past: n_past as u32,
            n_channels: n_channels as u32,
        })
    }

    /// Returns another memory of the same slots.
    pub(crate) fn moved(self, offset: usize, [n_past, n_channels]: [usize; 2]) -> Self {
        Self { offset: offset as u64, n_past: n_past as u32, n_channels: n_channels as u32, ..self }
    }

    /// Returns the number of floats per slot: one copy is read while the other is written.
    pub(crate) fn state_len([n_past, n_channels]: [usize; 2]) -> usize {
        2 * n_past * n_channels
    }
}

/// The first three fields of the `Shape` of every kernel with memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerArgument {
    step: StepArgument,
    timeline: TimelineArgument,
    memory: MemoryArgument,
}

impl LayerArgument {
    /// Returns the argument of a layer that remembers the last `n_past` rows of `n_channels`, given as `memory`.
    pub(crate) fn new(step: Step<'_>, timeline: Timeline, arena: Arena<'_>, memory: [usize; 2]) -> Result<Self> {
        let memory = MemoryArgument::new(arena, memory)?;
        Ok(Self { step: StepArgument::new(step)?, timeline: timeline.into(), memory })
    }
}

/// `Snake` of `step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SnakeArgument {
    alpha_dev: Address,
    inverse_dev: Address,
}

/// α and 1/α on the device.
#[derive(Debug)]
pub(crate) struct SnakeTable {
    alpha: Tensor,
    inverse: Tensor,
}

impl SnakeTable {
    /// Returns the bytes on the device for `padded` channels.
    pub(crate) fn bytes(padded: usize) -> usize {
        2 * padded.max(1) * size_of::<f32>()
    }

    /// Uploads the factors, padded with zeros to `padded` channels.
    pub(crate) fn new(upload: &Upload<'_>, alpha: &[f32], padded: usize) -> Result<Self> {
        let inverse = alpha.iter().map(|alpha| 1.0 / (alpha + 1e-9));
        let pad = |values: Vec<f32>| values.into_iter().chain(std::iter::repeat(0.0)).take(padded.max(1));
        let (alpha, inverse) = (pad(alpha.to_vec()), pad(inverse.collect()));
        Ok(Self {
            alpha: upload.slice(&alpha.collect::<Vec<_>>())?,
            inverse: upload.slice(&inverse.collect::<Vec<_>>())?,
        })
    }

    pub(crate) fn argument(&self) -> Result<SnakeArgument> {
        Ok(SnakeArgument { alpha_dev: address::<f32>(&self.alpha)?, inverse_dev: address::<f32>(&self.inverse)? })
    }
}

/// Returns the grid of `snake_rows` in `step.cuh`.
pub(crate) fn snake_rows(n_channels: usize, n_rows: u32) -> Launch {
    const BLOCK: usize = 256;
    let grid = (n_channels.div_ceil(BLOCK) as u32, n_rows.clamp(1, 65_535), 1);
    Launch { grid, block: (BLOCK as u32, 1, 1), shared_bytes: 0 }
}

/// Returns the number of columns of a layer's activations, as kernels count them.
pub(crate) fn n_columns(step: Step<'_>, rate: usize) -> Result<u32> {
    let n_columns = step.n_columns(rate);
    u32::try_from(n_columns).ok().filter(|&n| n < 1 << 30).ok_or_else(|| too_large(n_columns))
}

fn too_large(n: usize) -> Error {
    Error::invalid(format!("a step of {n} columns is too large for a GPU")).with_hint("use smaller steps")
}
