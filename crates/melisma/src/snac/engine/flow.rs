//! Activations on their way through the layers of a step.

use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::step::{Activations, Arena, Rows, Step};
use melisma_kernels::{Budget, Buffer, DType, Device, Queue, Tensor, ViewMut};

use super::need::{Capacity, Sizes};
use crate::Result;

/// What the kernels work on.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) rows: Rows,
    /// `[n_slots, slot_len]`
    pub(super) arena: Tensor,
    /// `[B, F, frame_in]`, `[B, F, frame_out]`
    pub(super) input: Buffer,
    pub(super) output: Buffer,
    /// `[B, T · rate]` for each noise block.
    pub(super) deviates: Tensor,
    /// Activations, taken in turns.
    pub(super) now: Tensor,
    pub(super) next: Tensor,
    /// Of attention: `[B, T, 3 C]`, `[B, T, C]`.
    pub(super) qkv: Tensor,
    pub(super) skip: Tensor,
}

impl Buffers {
    pub(super) fn new(device: &Device, budget: &Budget, capacity: Capacity, sizes: Sizes) -> Result<Self> {
        let n_latents = capacity.n_frames * sizes.frame_latents;
        let floats = |per_latent: usize| Tensor::new(device, budget, DType::F32, &[n_latents, per_latent]);
        let elements = |per_frame: usize| {
            // Codes and samples are 4 bytes each.
            let bytes = capacity.n_frames * per_frame * size_of::<f32>();
            match device {
                Device::Cpu(_) => Buffer::host(budget, bytes),
                Device::Cuda(cuda) => Buffer::device(cuda, budget, bytes),
            }
        };
        Ok(Self {
            rows: Rows::new(device, budget, capacity.n_rows, capacity.n_slots)?,
            arena: Tensor::new(device, budget, DType::F32, &[capacity.n_slots, sizes.slot_len])?,
            input: elements(sizes.frame_in)?,
            output: elements(sizes.frame_out)?,
            deviates: floats(sizes.deviates)?,
            now: floats(sizes.widest)?,
            next: floats(sizes.widest)?,
            qkv: floats(3 * sizes.attention)?,
            skip: floats(sizes.attention)?,
        })
    }
}

/// A layer with state, and where its floats begin in a slot.
#[derive(Debug)]
pub(super) struct Placed<P> {
    pub(super) plan: P,
    pub(super) offset: usize,
}

/// Each layer reads `now` and writes `next`, then the two swap.
pub(super) struct Flow<'a> {
    pub(super) queue: &'a Queue,
    pub(super) step: Step<'a>,
    pub(super) arena: &'a mut Tensor,
    pub(super) slot_len: usize,
    pub(super) now: &'a mut Tensor,
    pub(super) next: &'a mut Tensor,
}

impl Flow<'_> {
    /// Returns B · T.
    pub(super) fn n_columns(&self) -> usize {
        self.step.rows.len() * self.step.n_latents
    }

    pub(super) fn first(&mut self, len: usize) -> Result<ViewMut<'_, f32>> {
        self.now.view_mut::<f32>()?.first(len)
    }

    /// Runs a layer without state.
    pub(super) fn plain(
        &mut self,
        [len_in, len_out]: [usize; 2],
        run: impl FnOnce(&Queue, Step<'_>, Activations<'_>) -> Result<()>,
    ) -> Result<()> {
        let x = self.now.view::<f32>()?.first(len_in)?;
        let y = self.next.view_mut::<f32>()?.first(len_out)?;
        run(self.queue, self.step, Activations { x, y })?;
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }

    /// Runs a layer that remembers rows of its input.
    pub(super) fn stateful(&mut self, layer: &Placed<Plan>, [len_in, len_out]: [usize; 2]) -> Result<()> {
        let arena = Arena { floats: self.arena.view_mut::<f32>()?, slot_len: self.slot_len, offset: layer.offset };
        let x = self.now.view::<f32>()?.first(len_in)?;
        let y = self.next.view_mut::<f32>()?.first(len_out)?;
        layer.plan.run(self.queue, self.step, arena, Activations { x, y })?;
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }
}
