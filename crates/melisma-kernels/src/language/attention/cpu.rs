//! One task for each row and key head: all queries of the head read its keys once.

use super::Attention;
use crate::Result;
use crate::device::isa::{Isa, dispatch};
use crate::language::curve::exp;
use crate::language::lanes::{Finish, Sums, mix};
use crate::language::tokens::{CacheShape, Tokens};
use crate::queue::{CpuQueue, Disjoint};

/// Scores that are compared side by side.
const LANES: usize = 16;

#[derive(Debug)]
pub(super) struct Prepared {
    attention: Attention,
    isa: Isa,
}

impl Prepared {
    pub(super) fn new(attention: Attention, isa: Isa) -> Self {
        Self { attention, isa }
    }

    pub(super) fn run(
        &self,
        queue: &CpuQueue,
        tokens: &Tokens,
        (qkv, cache): (&[f32], &[f32]),
        y: &mut [f32],
    ) -> Result<()> {
        let Attention { n_heads, cache: shape } = self.attention;
        let CacheShape { page_len, n_heads: n_keys, head_dim, .. } = shape;
        let group = self.attention.group();
        let (row_len, group_len) = ((n_heads + 2 * n_keys) * head_dim, group * head_dim);
        let outputs = Disjoint::new(y);
        let scratch_len = group * (page_len + head_dim + 2);
        queue.run_with_scratch(tokens.len() * n_keys, scratch_len, |scratch, task| {
            let (row, head) = (task / n_keys, task % n_keys);
            let (scores, rest) = scratch.split_at_mut(group * page_len);
            let (mixed, totals) = rest.split_at_mut(group_len);
            // SAFETY: every task has its own group of query heads.
            let y = unsafe { outputs.part(task * group_len..(task + 1) * group_len) };
            y.fill(0.0);
            totals.as_chunks_mut().0.fill([f32::NEG_INFINITY, 0.0]);
            let queries = &qkv[row * row_len + head * group_len..][..group_len];
            let seen = tokens.position(row) + 1;
            let pages = tokens.pages(row);
            for (number, &page) in pages.iter().enumerate() {
                let n = page_len.min(seen - number * page_len);
                let keys = &cache[shape.keys(page, head)..][..n * head_dim];
                let values = &cache[shape.values(page, head)..][..n * head_dim];
                // Asked for while the keys, and then the values, are read.
                let ahead = Some(shape.values(page, head) - shape.keys(page, head));
                let next = pages.get(number + 1).map_or(values, |&page| &cache[shape.keys(page, head)..]);
                let finish = Finish::Scale(1.0 / (head_dim as f32).sqrt());
                let sums = Sums { k: head_dim, w: keys, x: queries, finish, ahead };
                // SAFETY: `scores` has `page_len >= n` floats for each query, and belongs to this worker.
                unsafe { sums.write(self.isa, scores.as_mut_ptr(), page_len) };
                let heads = y.chunks_exact_mut(head_dim).zip(mixed.chunks_exact_mut(head_dim));
                let heads = heads.zip(scores.chunks_exact_mut(page_len)).zip(totals.as_chunks_mut().0);
                for (((y, mixed), scores), totals) in heads {
                    let scores = &mut scores[..n];
                    let mut page = [0.0; 2];
                    let sums = &mut page;
                    dispatch!(self.isa, weigh(scores: &mut [f32], sums: &mut [f32; 2]));
                    mix(self.isa, scores, [values, next], mixed);
                    let mixed = &*mixed;
                    dispatch!(self.isa, add(page: [f32; 2], mixed: &[f32], totals: &mut [f32; 2], y: &mut [f32]));
                }
            }
            for (y, [_, sum]) in y.chunks_exact_mut(head_dim).zip(totals.as_chunks().0) {
                y.iter_mut().for_each(|y| *y /= sum);
            }
        })
    }
}

/// Turns the scores of a page into weights; `page` becomes the largest score and the sum of the weights.
#[inline(always)]
fn weigh(scores: &mut [f32], page: &mut [f32; 2]) {
    // The largest of each lane, then of all: the order changes nothing.
    let (lanes, rest) = scores.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for scores in lanes {
        for (largest, &score) in largest.iter_mut().zip(scores) {
            *largest = if score > *largest { score } else { *largest };
        }
    }
    let largest = largest.iter().chain(rest);
    let most = largest.fold(f32::NEG_INFINITY, |most, &score| if score > most { score } else { most });
    scores.iter_mut().for_each(|score| *score = exp(*score - most));
    *page = [most, scores.iter().sum()];
}

/// Adds the weighted values of a page to `y`, whose largest score and sum of weights are in `totals`.
#[inline(always)]
fn add([most, sum]: [f32; 2], mixed: &[f32], totals: &mut [f32; 2], y: &mut [f32]) {
    let [most_before, sum_before] = *totals;
    let most_now = if most > most_before { most } else { most_before };
    let (before, now) = (exp(most_before - most_now), exp(most - most_now));
    *totals = [most_now, sum_before.mul_add(before, sum * now)];
    for (y, &mixed) in y.iter_mut().zip(mixed) {
        *y = y.mul_add(before, mixed * now);
    }
}
