//! Codes residuals as Rice codes, with a parameter for each of up to 64 partitions.

use super::bits::Bits;

const MAX_PARTITION_ORDER: u32 = 6;
/// The largest four-bit parameter; 15 is the escape code.
const MAX_SHORT: u32 = 14;
const MAX_LONG: u32 = 30;

/// How a residual is coded.
#[derive(Debug)]
pub(super) struct Plan {
    partition_order: u32,
    parameters: Vec<u32>,
    /// Total bits.
    pub(super) cost: u64,
}

impl Plan {
    /// Returns the cheapest coding of a block whose first `order` samples have no residual.
    pub(super) fn new(residual: &[i64], order: usize) -> Self {
        let n = residual.len() + order;
        let possible = |p: &u32| n.is_multiple_of(1 << p) && n >> p > order;
        let finest = (0..=MAX_PARTITION_ORDER).rev().find(possible).unwrap_or(0);
        let mut sums: Vec<u64> =
            partitions(residual, order, finest).map(|part| part.iter().map(|&x| fold(x)).sum()).collect();
        let mut best: Option<Self> = None;
        for partition_order in (0..=finest).rev() {
            let len = |index: usize| ((n >> partition_order) - if index == 0 { order } else { 0 }) as u64;
            let chosen: Vec<(u32, u64)> =
                sums.iter().enumerate().map(|(index, &sum)| parameter(sum, len(index))).collect();
            let cost = 6 + chosen.iter().map(|(_, cost)| cost).sum::<u64>();
            if best.as_ref().is_none_or(|best| cost < best.cost) {
                best = Some(Self { partition_order, parameters: chosen.iter().map(|chosen| chosen.0).collect(), cost });
            }
            sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        best.unwrap_or(Self { partition_order: 0, parameters: vec![0], cost: u64::MAX })
    }

    pub(super) fn write(&self, residual: &[i64], order: usize, bits: &mut Bits) {
        let is_long = self.parameters.iter().any(|&k| k > MAX_SHORT);
        bits.put(is_long.into(), 2);
        bits.put(self.partition_order.into(), 4);
        for (part, &k) in partitions(residual, order, self.partition_order).zip(&self.parameters) {
            bits.put(k.into(), if is_long { 5 } else { 4 });
            for &x in part {
                let folded = fold(x);
                bits.put_unary((folded >> k) as u32);
                bits.put(folded, k);
            }
        }
    }
}

/// Maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
fn fold(x: i64) -> u64 {
    (x << 1 ^ x >> 63) as u64
}

/// Returns the best parameter for `n` numbers with this sum, and an upper bound for their bits.
fn parameter(sum: u64, n: u64) -> (u32, u64) {
    let cost = |k: u32| 5 + n * u64::from(k + 1) + (sum >> k);
    let best = (0..=MAX_LONG).min_by_key(|&k| cost(k)).unwrap_or(0);
    (best, cost(best))
}

fn partitions(residual: &[i64], order: usize, partition_order: u32) -> impl Iterator<Item = &[i64]> {
    let len = (residual.len() + order) >> partition_order;
    let (first, rest) = residual.split_at(len.saturating_sub(order).min(residual.len()));
    std::iter::once(first).chain(rest.chunks(len.max(1)))
}
