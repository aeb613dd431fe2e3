//! Grid and arguments of `halved.cu`.

use super::Attention;
use super::shape::Shape;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::cuda::{CURVE, HALVES, TOKENS};
use crate::queue::{CudaQueue, Launch, arguments};
use crate::{Error, Result};

const SOURCE: Source = Source {
    name: "language_attention_halved",
    text: include_str!("halved.cu"),
    headers: &[DEVICE, CURVE, HALVES, TOKENS],
};

/// Constants of the kernel.
const CHAINS: usize = 16;
const QUERIES: usize = 8;
const WEIGHTS_ROW: usize = 36;
/// Warps of a block that follow chains, and of one that adds them.
const WARPS: usize = 4;
const ADDING_WARPS: u32 = 8;
/// Blocks that share a row and key head where there are few of these.
const BLOCKS: u32 = 4;
/// Shared memory that a block has by default.
const SHARED_BYTES: usize = 48 << 10;

/// Attention over a cache of bf16.
#[derive(Debug)]
pub(super) struct Halved {
    attention: Attention,
    function: Function,
    add: Function,
}

impl Halved {
    pub(super) fn new(attention: Attention, cuda: &Cuda) -> Result<Self> {
        let head_dim = attention.cache.head_dim;
        if !head_dim.is_multiple_of(8) {
            return Err(Error::unsupported(format!("attention: heads of {head_dim} channels and a cache of bf16"))
                .with_hint("a multiple of 8 channels is supported"));
        }
        let halved = Self {
            attention,
            function: cuda.function(SOURCE, if head_dim == 128 { "attention_128" } else { "attention_bf16" })?,
            add: cuda.function(SOURCE, "attention_add")?,
        };
        halved.function.allow_shared(halved.shared_bytes(false).max(SHARED_BYTES))?;
        halved.add.allow_shared(halved.factor_bytes().max(SHARED_BYTES))?;
        Ok(halved)
    }

    /// Returns the bytes of the factors of all chains.
    fn factor_bytes(&self) -> usize {
        CHAINS * self.attention.group() * size_of::<f32>()
    }

    /// Returns the bytes of what the chains of a row and key head find: a sum for each channel, and two totals.
    fn chain_bytes(&self) -> usize {
        (self.attention.cache.head_dim + 2) * self.factor_bytes()
    }

    /// Returns the bytes of shared memory of a block, which has the chains where it is `whole`.
    fn shared_bytes(&self, whole: bool) -> usize {
        let row = self.attention.cache.head_dim.next_multiple_of(32) + 8;
        let own = QUERIES * (row + WARPS * WEIGHTS_ROW) * size_of::<f32>();
        if whole { own + self.chain_bytes() + self.factor_bytes() } else { own }
    }

    pub(super) fn run(&self, queue: &CudaQueue, shape: Shape, n_rows: usize) -> Result<()> {
        if !shape.cache_dev.is_multiple_of(16) {
            return Err(Error::invalid("attention: the cache does not begin at a multiple of 16 bytes"));
        }
        let n_heads = self.attention.cache.n_heads;
        let are_few = 2 * n_rows * n_heads <= queue.cuda().n_processors() as usize;
        let is_whole = !are_few && self.shared_bytes(true) <= SHARED_BYTES;
        let partial_dev: Address = match is_whole {
            true => 0,
            false => queue.scratch([n_rows * n_heads * self.chain_bytes()])?[0],
        };
        let shape = Shape { partial_dev, ..shape };
        let (across, down) = (n_heads as u32, n_rows.min(65_535) as u32);
        let launch = Launch {
            grid: (across, down, if are_few { BLOCKS } else { 1 }),
            block: (32, WARPS as u32, 1),
            shared_bytes: self.shared_bytes(is_whole) as u32,
        };
        // SAFETY: the plan checked the views against the tokens, whose pages are in the cache; the chains have room in
        // shared memory or in the scratch.
        unsafe { queue.launch(&self.function, launch, arguments![shape])? };
        if is_whole {
            return Ok(());
        }
        let shared_bytes = self.factor_bytes() as u32;
        let launch = Launch { grid: (across, down, 1), block: (32, ADDING_WARPS, 1), shared_bytes };
        // SAFETY: the chains of all rows and heads are in the scratch.
        unsafe { queue.launch(&self.add, launch, arguments![shape]) }
    }
}
