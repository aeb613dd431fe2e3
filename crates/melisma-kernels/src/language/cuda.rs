//! Headers of this folder, and arguments that several of its kernels take.

use super::tokens::{self, CacheShape};
use crate::Result;
use crate::device::cuda::{Address, Header};

pub(super) const CURVE: Header = Header { name: "curve.cuh", text: include_str!("curve.cuh") };
pub(super) const HALVES: Header = Header { name: "halves.cuh", text: include_str!("halves.cuh") };
pub(super) const TOKENS: Header = Header { name: "tokens.cuh", text: include_str!("tokens.cuh") };

/// `CacheShape` of `tokens.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheArgument {
    page_len: u32,
    n_heads: u32,
    head_dim: u32,
}

impl From<CacheShape> for CacheArgument {
    fn from(shape: CacheShape) -> Self {
        let [page_len, n_heads, head_dim] = [shape.page_len, shape.n_heads, shape.head_dim].map(|size| size as u32);
        Self { page_len, n_heads, head_dim }
    }
}

/// `Tokens` of `tokens.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct TokensArgument {
    words_dev: Address,
    n_rows: u32,
}

impl TokensArgument {
    pub(super) fn new(tokens: &tokens::Tokens) -> Result<Self> {
        Ok(Self { words_dev: tokens.address()?, n_rows: tokens.len() as u32 })
    }
}
