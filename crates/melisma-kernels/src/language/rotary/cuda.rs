//! Grid and arguments of `rotary.cu`.

use half::bf16;

use super::Rotary;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::cuda::{CacheArgument, TOKENS, TokensArgument};
use crate::language::tokens::Tokens;
use crate::memory::view::CudaViewMut;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, DType, Result, Tensor};

const SOURCE: Source = Source { name: "rotary", text: include_str!("rotary.cu"), headers: &[DEVICE, TOKENS] };

const BLOCK: u32 = 128;

/// `Shape` of `rotary.cu`.
#[repr(C)]
struct Shape {
    tokens: TokensArgument,
    shape: CacheArgument,
    n_heads: u32,
    turns_dev: Address,
    qkv_dev: Address,
    cache_dev: Address,
}

#[derive(Debug)]
pub(super) struct Prepared {
    rotary: Rotary,
    /// `[position, 2, D/2]`: cosines, then sines.
    turns: Tensor,
    /// For a cache of f32, and of bf16.
    functions: [Function; 2],
}

impl Prepared {
    pub(super) fn new(rotary: &Rotary, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let mut turns = vec![0.0; rotary.n_positions * rotary.cache.head_dim];
        rotary.write_turns(&mut turns);
        let turns = Upload::new(cuda, budget)?.slice(&turns)?;
        let functions = [cuda.function(SOURCE, "rotary_f32")?, cuda.function(SOURCE, "rotary_bf16")?];
        Ok(Self { rotary: *rotary, turns, functions })
    }

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        tokens: &Tokens,
        (qkv, cache): (CudaViewMut<'_, f32>, &mut Tensor),
    ) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        let Rotary { n_heads, cache: sizes, .. } = self.rotary;
        let (number, cache_dev) = match cache.dtype() {
            DType::BF16 => (1, cache.view_mut::<bf16>()?.cuda()?.address_dev),
            _ => (0, cache.view_mut::<f32>()?.cuda()?.address_dev),
        };
        let shape = Shape {
            tokens: TokensArgument::new(tokens)?,
            shape: sizes.into(),
            n_heads: n_heads as u32,
            turns_dev: address::<f32>(&self.turns)?,
            qkv_dev: qkv.address_dev,
            cache_dev,
        };
        let n_threads = (n_heads + 2 * sizes.n_heads) * sizes.head_dim / 2;
        let grid = ((n_threads as u32).div_ceil(BLOCK), tokens.len().min(65_535) as u32, 1);
        let launch = Launch { grid, block: (BLOCK, 1, 1), shared_bytes: 0 };
        // SAFETY: the plan checked the views against the tokens, whose positions have turns and whose pages are in the
        // cache.
        unsafe { queue.launch(&self.functions[number], launch, arguments![shape]) }
    }
}
