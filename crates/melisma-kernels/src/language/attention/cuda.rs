//! Attention on a GPU, by the element type of its cache.

use super::Attention;
use super::exact::Exact;
use super::halved::Halved;
use super::shape::Shape;
use crate::device::cuda::Cuda;
use crate::language::cuda::TokensArgument;
use crate::language::tokens::Tokens;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::CudaQueue;
use crate::{DType, Error, Result, Tensor};

#[derive(Debug)]
pub(super) enum Prepared {
    Exact(Exact),
    Halved(Halved),
}

impl Prepared {
    pub(super) fn new(attention: Attention, cache: DType, cuda: &Cuda) -> Result<Self> {
        match cache {
            DType::F32 => Exact::new(attention, cuda).map(Self::Exact),
            DType::BF16 => Halved::new(attention, cuda).map(Self::Halved),
            other => Err(Error::unsupported(format!("attention: a cache of {}", other.name()))),
        }
    }

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        (attention, tokens): (Attention, &Tokens),
        (qkv, cache): (CudaView<'_, f32>, &Tensor),
        y: CudaViewMut<'_, f32>,
    ) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        let cache_dev = match self {
            Self::Exact(_) => cache.view::<f32>()?.cuda()?.address_dev,
            Self::Halved(_) => cache.view::<half::bf16>()?.cuda()?.address_dev,
        };
        let shape = Shape {
            tokens: TokensArgument::new(tokens)?,
            shape: attention.cache.into(),
            n_heads: attention.n_heads as u32,
            qkv_dev: qkv.address_dev,
            cache_dev,
            y_dev: y.address_dev,
            partial_dev: 0,
            scale: 1.0 / (attention.cache.head_dim as f32).sqrt(),
            n_group: attention.group() as u32,
        };
        match self {
            Self::Exact(exact) => exact.run(queue, shape, tokens.len()),
            Self::Halved(halved) => halved.run(queue, shape, tokens.len()),
        }
    }
}
