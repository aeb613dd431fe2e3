//! The random choices of the composer: integers only, so that they are the same on every machine.

use crate::random::SplitMix64;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(SplitMix64);

impl Random {
    /// Returns the stream for `part` of phrase `phrase` of a piece: independent of all others, so that a change of
    /// one part leaves the others alone.
    pub(super) fn new(seed: u64, phrase: u64, part: u64) -> Self {
        let seed = SplitMix64::new(seed).bits() ^ phrase;
        let seed = SplitMix64::new(seed).bits() ^ part;
        Self(SplitMix64::new(seed))
    }

    /// Returns a number uniform in `0..n`, 0 for n = 0. The bias of the multiplication is below 2^-32.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        ((u64::from((self.0.bits() >> 32) as u32) * u64::from(n)) >> 32) as u32
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Returns a place in `weights`, each as often as its weight says; the first where all are 0.
    pub(super) fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, &weight) in weights.iter().enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        0
    }

    /// Returns one of `items`, which are not empty.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u32) as usize]
    }
}
