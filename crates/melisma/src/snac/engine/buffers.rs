//! The memory that the layers of a step work in.

use melisma_kernels::layer::step::Rows;
use melisma_kernels::{Budget, Buffer, DType, Device, Tensor};

use super::size::{Capacity, Sizes};
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
