//! Random numbers that are the same on every machine, for generated music, synthetic data, tests and benches.

/// SplitMix64: 64 good bits from each step of a counter. Steele, Lea and Flood 2014.
///
/// ```
/// let mut random = melisma_kernels::random::SplitMix64::new(7);
/// assert_eq!(random.bits(), 0x63cb_e1e4_5932_0dd7);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Returns the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number uniform in `0..end`, with modulo bias; 0 for an `end` of 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// Returns a number uniform in 0 .. 1, a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Returns a number uniform in -1 .. 1, a multiple of 2^-23.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Returns the next `len` numbers of [`signed`](Self::signed).
    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.signed()).collect()
    }
}

/// A linear congruential generator with 32 bits of state: the noise of test signals. Only the upper bits are random.
#[derive(Debug, Clone)]
pub struct Lcg32(u32);

impl Lcg32 {
    /// Returns the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u32) -> Self {
        Self(seed)
    }

    /// Returns the next state.
    pub const fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }

    /// Returns a number uniform in 0 .. 1, a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 24) as f32
    }

    /// Returns a number uniform in -1 .. 1, a multiple of 2^-23.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// A linear congruential generator with 64 bits of state. Only the upper bits are random.
#[derive(Debug, Clone)]
pub struct Lcg64(u64);

impl Lcg64 {
    /// Returns the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the upper 31 bits of the next state.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns a number uniform in `0..end`, with modulo bias; 0 for an `end` of 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// Returns a number uniform in 0 .. 1, a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 7) as f32 / (1u64 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sequences() {
        let mut random = SplitMix64::new(1_234_567);
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(published.map(|_| random.bits()), published);
        let mut random = Lcg32::new(0);
        assert_eq!([random.bits(), random.bits()], [1_013_904_223, 1_196_435_762]);
        let mut random = Lcg64::new(0);
        assert_eq!([random.bits(), random.bits()], [1_442_695_040_888_963_407 >> 33, 1_876_011_003_808_476_466 >> 33]);
    }

    #[test]
    fn ranges() {
        let mut random = SplitMix64::new(1);
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&random.unit()));
            assert!((-1.0..1.0).contains(&random.signed()));
            assert!(random.below(7) < 7);
        }
        assert_eq!([random.below(0), random.below(1)], [0, 0]);
    }
}
