//! Grid and arguments of `attention.cu`.

use super::Attention;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::cuda::{CURVE, CacheArgument, TOKENS, TokensArgument};
use crate::language::tokens::Tokens;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, arguments};
use crate::{Error, Result};

const SOURCE: Source =
    Source { name: "language_attention", text: include_str!("attention.cu"), headers: &[DEVICE, CURVE, TOKENS] };

/// The most warps of a block; each has a page at a time.
const MAX_WARPS: usize = 16;
/// Shared memory that a block has by default.
const SHARED_BYTES: usize = 48 << 10;

/// `Shape` of `attention.cu`.
#[repr(C)]
struct Shape {
    tokens: TokensArgument,
    shape: CacheArgument,
    n_heads: u32,
    qkv_dev: Address,
    cache_dev: Address,
    y_dev: Address,
    scale: f32,
    n_group: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
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

impl Prepared {
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

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        tokens: &Tokens,
        (qkv, cache): (CudaView<'_, f32>, CudaView<'_, f32>),
        y: CudaViewMut<'_, f32>,
    ) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        if !cache.address_dev.is_multiple_of(16) {
            return Err(Error::invalid("attention: the cache does not begin at a multiple of 16 bytes"));
        }
        let Attention { n_heads, cache: sizes } = self.attention;
        let shape = Shape {
            tokens: TokensArgument::new(tokens)?,
            shape: sizes.into(),
            n_heads: n_heads as u32,
            qkv_dev: qkv.address_dev,
            cache_dev: cache.address_dev,
            y_dev: y.address_dev,
            scale: 1.0 / (sizes.head_dim as f32).sqrt(),
            n_group: self.attention.group() as u32,
        };
        let launch = Launch {
            grid: (sizes.n_heads as u32, tokens.len().min(65_535) as u32, 1),
            block: (32, self.n_warps as u32, 1),
            shared_bytes: shared_bytes(&self.attention, self.n_warps).unwrap_or(SHARED_BYTES) as u32,
        };
        // SAFETY: the plan checked the views against the tokens, whose pages are in the cache; shared memory is as
        // large as the kernel needs.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
