//! Random numbers that are the same on every machine: SplitMix64, integers only.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The stream for `part` of phrase `phrase` of a piece: independent of all others, so that a change of one part leaves the others alone.
    pub(super) fn new(seed: u64, phrase: u64, part: u64) -> Self {
        let mut stream = Self(seed);
        let seed = stream.bits() ^ phrase;
        let mut stream = Self(seed);
        let seed = stream.bits() ^ part;
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`, 0 for n = 0. The bias of the multiplication is below 2^-32.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        ((u64::from((self.bits() >> 32) as u32) * u64::from(n)) >> 32) as u32
    }

    /// True so many times in a hundred.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// A place in `weights`, each as often as its weight says; the first where all are 0.
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

    /// One of `items`, which are not empty.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u32) as usize]
    }
}
