//! A table of all angles, and plain loops: a row has a few thousand channels.

use super::Rotary;
use crate::device::isa::{Isa, dispatch};
use crate::language::tokens::{CacheShape, Tokens};
use crate::{Budget, Cpu, DType, Device, Result, Tensor};

#[derive(Debug)]
pub(super) struct Prepared {
    isa: Isa,
    n_heads: usize,
    /// `[position, 2, D/2]`: cosines, then sines.
    turns: Tensor,
}

impl Prepared {
    pub(super) fn new(rotary: &Rotary, isa: Isa, budget: &Budget) -> Result<Self> {
        let host = Device::Cpu(Cpu { isa, threads: 1 });
        let mut turns = Tensor::new(&host, budget, DType::F32, &[rotary.n_positions, rotary.cache.head_dim])?;
        rotary.write_turns(turns.view_mut::<f32>()?.host()?);
        Ok(Self { isa, n_heads: rotary.n_heads, turns })
    }

    pub(super) fn run(&self, tokens: &Tokens, qkv: &mut [f32], cache: &mut [f32]) -> Result<()> {
        let shape = tokens.shape();
        let CacheShape { page_len, n_heads: n_keys, head_dim, .. } = shape;
        let turns = self.turns.view::<f32>()?.host()?;
        for (row, qkv) in qkv.chunks_exact_mut((self.n_heads + 2 * n_keys) * head_dim).enumerate() {
            let position = tokens.position(row);
            let turn = &turns[position * head_dim..][..head_dim];
            let (turned, values) = qkv.split_at_mut((self.n_heads + n_keys) * head_dim);
            dispatch!(self.isa, turn_heads(turn: &[f32], turned: &mut [f32]));
            let keys = &turned[self.n_heads * head_dim..];
            let Some(&page) = tokens.pages(row).last() else { continue };
            let offset = position % page_len * head_dim;
            for (head, (key, value)) in keys.chunks(head_dim).zip(values.chunks(head_dim)).enumerate() {
                cache[shape.keys(page, head) + offset..][..head_dim].copy_from_slice(key);
                cache[shape.values(page, head) + offset..][..head_dim].copy_from_slice(value);
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn turn_heads(turn: &[f32], heads: &mut [f32]) {
    let half = turn.len() / 2;
    let (cos, sin) = turn.split_at(half);
    for head in heads.chunks_exact_mut(2 * half) {
        let (a, b) = head.split_at_mut(half);
        for ((a, b), (cos, sin)) in a.iter_mut().zip(b).zip(cos.iter().zip(sin)) {
            (*a, *b) = (a.mul_add(*cos, -(*b * sin)), b.mul_add(*cos, *a * sin));
        }
    }
}
