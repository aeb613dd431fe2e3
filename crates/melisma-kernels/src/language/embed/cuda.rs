//! Grid and arguments of `embed.cu`.

use std::sync::Arc;

use half::bf16;

use crate::device::cuda::{Cuda, DEVICE, Function, Source};
use crate::language::numbers::Numbers;
use crate::language::weight::{self, Weight};
use crate::memory::view::CudaViewMut;
use crate::queue::{CudaQueue, Launch, address, arguments};
use crate::{Budget, Error, Result, Tensor};

const SOURCE: Source = Source { name: "language_embed", text: include_str!("embed.cu"), headers: &[DEVICE] };

/// Channels of one load.
const LOAD: usize = 8;

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    table: Arc<Tensor>,
    function: Function,
}

impl Prepared {
    pub(super) fn new(weight: &Weight, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let n_channels = weight.shape()[1];
        if !n_channels.is_multiple_of(LOAD) {
            return Err(Error::unsupported(format!("embed: rows of {n_channels} channels on a GPU"))
                .with_hint("a multiple of 8 channels is supported"));
        }
        let function = cuda.function(SOURCE, "embed_bf16")?;
        Ok(Self { n_channels, table: weight::stacked(&[weight], cuda, budget)?, function })
    }

    pub(super) fn run(&self, queue: &CudaQueue, tokens: &Numbers, y: CudaViewMut<'_, f32>) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        if !y.address_dev.is_multiple_of(16) {
            return Err(Error::invalid("embed: y does not begin at a multiple of 16 bytes"));
        }
        let (table_dev, tokens_dev, y_dev) = (address::<bf16>(&self.table)?, tokens.address()?, y.address_dev);
        let (n_rows, n_channels) = (tokens.len() as u32, self.n_channels as u32);
        let launch = Launch { grid: (n_rows.min(65_535), 1, 1), block: (128, 1, 1), shared_bytes: 0 };
        // SAFETY: the plan checked that y has these rows and the table all tokens.
        unsafe { queue.launch(&self.function, launch, arguments![table_dev, tokens_dev, y_dev, n_rows, n_channels]) }
    }
}
