//! The argument of the kernels of attention.

use crate::device::cuda::Address;
use crate::language::cuda::{CacheArgument, TokensArgument};

/// `Shape` of `exact.cu` and `halved.cu`.
#[repr(C)]
pub(super) struct Shape {
    pub(super) tokens: TokensArgument,
    pub(super) shape: CacheArgument,
    pub(super) n_heads: u32,
    pub(super) qkv_dev: Address,
    pub(super) cache_dev: Address,
    pub(super) y_dev: Address,
    /// Scratch of `halved.cu`.
    pub(super) partial_dev: Address,
    pub(super) scale: f32,
    pub(super) n_group: u32,
}
