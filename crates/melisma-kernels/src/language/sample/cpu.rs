//! A few passes over the logits, in scratch that all draws share.

use super::{ONE, Sample, impossible, not_finite};
use crate::Result;
use crate::device::isa::{Isa, dispatch};
use crate::language::curve::exp;
use crate::queue::CpuQueue;

#[derive(Debug)]
pub(super) struct Prepared {
    sample: Sample,
    isa: Isa,
}

impl Prepared {
    pub(super) fn new(sample: Sample, isa: Isa) -> Self {
        Self { sample, isa }
    }

    pub(super) fn draw(&self, queue: &CpuQueue, logits: &[f32], seen: &[u64], bits: u64) -> Result<usize> {
        let n = logits.len();
        let mut scratch = queue.shared_scratch(3 * n)?;
        let (weights, rest) = scratch.floats(3 * n)?.split_at_mut(n);
        let weights: &mut [u32] = bytemuck::cast_slice_mut(weights);
        self.weigh(logits, seen, rest, weights)?;
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut left = ((u128::from(bits) * u128::from(total)) >> 64) as u64;
        let drawn = weights.iter().position(|&weight| match left.checked_sub(u64::from(weight)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        drawn.ok_or_else(impossible)
    }

    pub(super) fn weigh_into(&self, queue: &CpuQueue, logits: &[f32], seen: &[u64], weights: &mut [u32]) -> Result<()> {
        let mut scratch = queue.shared_scratch(2 * logits.len())?;
        self.weigh(logits, seen, scratch.floats(2 * logits.len())?, weights)
    }

    /// Computes the weights with two numbers of scratch for each.
    fn weigh(&self, logits: &[f32], seen: &[u64], scratch: &mut [f32], weights: &mut [u32]) -> Result<()> {
        let Sample { repetition_penalty, temperature, top_k, top_p, min_p } = self.sample;
        let (scores, spare) = scratch.split_at_mut(logits.len());
        scores.copy_from_slice(logits);
        penalize(scores, seen, repetition_penalty);
        if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
            return Err(not_finite(at, scores.len(), scores[at]));
        }
        let most = scores.iter().fold(f32::NEG_INFINITY, |most, &score| most.max(score));
        if temperature == 0.0 {
            let first = scores.iter().position(|&score| score == most).unwrap_or(0);
            weights.fill(0);
            weights[first] = ONE as u32;
            return Ok(());
        }
        let least = match top_k {
            1.. if top_k < scores.len() => {
                spare.copy_from_slice(scores);
                *spare.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a)).1
            }
            _ => f32::NEG_INFINITY,
        };
        let cut = Cut { temperature, most, least };
        let scores = &*scores;
        dispatch!(self.isa, exponentials(cut: Cut, scores: &[f32], weights: &mut [u32]));
        if top_p < 1.0 {
            let least = least_weight(weights, bytemuck::cast_slice_mut(spare), top_p);
            weights.iter_mut().for_each(|weight| *weight = if *weight < least { 0 } else { *weight });
        }
        if min_p > 0.0 {
            let least = f64::from(min_p) * f64::from(ONE);
            weights.iter_mut().for_each(|weight| *weight = if f64::from(*weight) < least { 0 } else { *weight });
        }
        Ok(())
    }
}

fn penalize(scores: &mut [f32], seen: &[u64], penalty: f32) {
    for (scores, &seen) in scores.chunks_mut(64).zip(seen) {
        let mut left = seen;
        while left != 0 {
            if let Some(score) = scores.get_mut(left.trailing_zeros() as usize) {
                *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
            }
            left &= left - 1;
        }
    }
}

#[derive(Clone, Copy)]
struct Cut {
    temperature: f32,
    most: f32,
    /// Smaller scores weigh nothing.
    least: f32,
}

#[inline(always)]
fn exponentials(cut: Cut, scores: &[f32], weights: &mut [u32]) {
    for (weight, &score) in weights.iter_mut().zip(scores) {
        let value = exp((score - cut.most) / cut.temperature) * ONE;
        *weight = if score < cut.least { 0 } else { (value + 0.5) as u32 };
    }
}

/// Returns the smallest weight that top-p keeps, with room for all of them in `spare`.
fn least_weight(weights: &[u32], spare: &mut [u32], top_p: f32) -> u32 {
    let mut sums = [0u64; BUCKETS];
    weights.iter().for_each(|&weight| sums[bucket(weight)] += u64::from(weight));
    let total: u64 = sums.iter().sum();
    let dropped = ((1.0 - f64::from(top_p)) * total as f64) as u64;
    let mut sum = 0;
    let last = sums.iter().position(|of_bucket| {
        sum += of_bucket;
        sum > dropped
    });
    let Some(last) = last else { return weights.iter().copied().max().unwrap_or(0) };
    sum -= sums[last];
    let mut n = 0;
    for &weight in weights.iter().filter(|&&weight| bucket(weight) == last) {
        spare[n] = weight;
        n += 1;
    }
    let sorted = &mut spare[..n];
    sorted.sort_unstable();
    let kept = sorted.iter().find(|&&weight| {
        sum += u64::from(weight);
        sum > dropped
    });
    kept.copied().unwrap_or(0)
}

/// Groups of weights that are sorted as a whole.
const BUCKETS: usize = (32 << 5) + 1;

/// Returns the group of a weight, by its exponent and first binary digits; larger weights are never in an earlier one.
fn bucket(weight: u32) -> usize {
    (((weight as f32).to_bits() >> 18) as usize).saturating_sub(127 << 5)
}
