//! Activations on their way through the layers of a step.

use melisma_kernels::layer::attention::Pass;
use melisma_kernels::layer::plan::Plan;
use melisma_kernels::layer::step::{Activations, Arena, Step};
use melisma_kernels::{Queue, Tensor, View, ViewMut};

use super::chain::{LocalAttention, Placed};
use crate::Result;

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
    /// B · T.
    pub(super) fn n_columns(&self) -> usize {
        self.step.rows.len() * self.step.n_latents
    }

    pub(super) fn first(&mut self, len: usize) -> Result<ViewMut<'_, f32>> {
        self.now.view_mut::<f32>()?.first(len)
    }

    /// A layer without state.
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

    /// A layer that remembers rows of its input.
    pub(super) fn stateful(&mut self, layer: &Placed<Plan>, [len_in, len_out]: [usize; 2]) -> Result<()> {
        let arena = Arena { floats: self.arena.view_mut::<f32>()?, slot_len: self.slot_len, offset: layer.offset };
        let x = self.now.view::<f32>()?.first(len_in)?;
        let y = self.next.view_mut::<f32>()?.first(len_out)?;
        layer.plan.run(self.queue, self.step, arena, Activations { x, y })?;
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }

    /// Attention with its norm, projections and skip.
    pub(super) fn attend(&mut self, local: &LocalAttention, [qkv, skip]: [&mut Tensor; 2]) -> Result<()> {
        let len = self.n_columns() * local.n_channels;
        self.plain([len, len], |queue, step, x| local.norm.run(queue, step, x))?;
        // The norm is in `now`, its input still in `next`.
        let none = View::Host(&[]);
        let activations =
            Activations { x: self.now.view::<f32>()?.first(len)?, y: qkv.view_mut::<f32>()?.first(3 * len)? };
        local.to_qkv.run(self.queue, self.step, none, activations)?;
        let pass = Pass {
            qkv: qkv.view::<f32>()?.first(3 * len)?,
            x: self.next.view::<f32>()?.first(len)?,
            mixed: self.now.view_mut::<f32>()?.first(len)?,
            skip: skip.view_mut::<f32>()?.first(len)?,
        };
        let floats = self.arena.view_mut::<f32>()?;
        let arena = Arena { floats, slot_len: self.slot_len, offset: local.attend.offset };
        local.attend.plan.run(self.queue, self.step, arena, pass)?;
        let with = skip.view::<f32>()?.first(len)?;
        self.plain([len, len], |queue, step, x| local.to_out.run(queue, step, with, x))
    }
}
