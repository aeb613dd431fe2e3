//! Grid and arguments of `exact.cu`.

use super::Attention;
use super::shape::Shape;
use crate::device::cuda::{Cuda, DEVICE, Function, Source};
use crate::language::cuda::{CURVE, TOKENS};
use crate::queue::{CudaQueue, Launch, arguments};
use crate::{Error, Result};

const SOURCE: Source =
    Source { name: "language_attention_exact", text: include_str!("exact.cu"), headers: &[DEVICE, CURVE, TOKENS] };

/// The most warps of a block; each has a page at a time.
const MAX_WARPS: usize = 16;
/// Shared memory that a block has by default.
const SHARED_BYTES: usize = 48 << 10;

/// Attention over a cache of f32.
#[derive(Debug)]
pub(super) struct Exact {
    attention: Attention,
    /// As many warps as have room for their pages in shared memory.
    n_warps: usize,
    function: Function,
}

/// Returns the bytes of shared memory for a block of `n_warps`.
fn shared_bytes(attention: &Attention, n_warps: usize) -> Option<usize> {
    let (group, dim) = (attention.group(), attention.cache.head_dim);
    let per_warp = dim.checked_add(attention.cache.page_len)?.checked_add(2)?.checked_mul(group)?;
    let shared = dim.checked_mul(2)?.checked_add(2)?.checked_mul(group)?;
    n_warps.checked_mul(per_warp)?.checked_add(shared)?.checked_mul(size_of::<f32>())
}

impl Exact {
    pub(super) fn new(attention: Attention, cuda: &Cuda) -> Result<Self> {
        let head_dim = attention.cache.head_dim;
        if !head_dim.is_multiple_of(4) {
            return Err(Error::unsupported(format!("attention: heads of {head_dim} channels on a GPU"))
                .with_hint("a multiple of 4 channels is supported"));
        }
        let fits = |n: &usize| shared_bytes(&attention, *n).is_some_and(|bytes| bytes <= SHARED_BYTES);
        let n_warps = (1..=MAX_WARPS).rev().find(fits).ok_or_else(|| {
            let (group, page_len) = (attention.group(), attention.cache.page_len);
            let sizes = format!("{group} queries of {head_dim} channels and pages of {page_len} tokens");
            Error::unsupported(format!("attention: {sizes} do not fit a GPU"))
        })?;
        Ok(Self { attention, n_warps, function: cuda.function(SOURCE, "attention_f32")? })
    }

    pub(super) fn run(&self, queue: &CudaQueue, shape: Shape, n_rows: usize) -> Result<()> {
        if !shape.cache_dev.is_multiple_of(16) {
            return Err(Error::invalid("attention: the cache does not begin at a multiple of 16 bytes"));
        }
        let launch = Launch {
            grid: (self.attention.cache.n_heads as u32, n_rows.min(65_535) as u32, 1),
            block: (32, self.n_warps as u32, 1),
            shared_bytes: shared_bytes(&self.attention, self.n_warps).unwrap_or(SHARED_BYTES) as u32,
        };
        // SAFETY: the plan checked the views against the tokens, whose pages are in the cache; shared memory is as
        // large as the kernel needs.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
