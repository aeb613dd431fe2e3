//! Noise that depends on the position alone: Philox4x32-10 counters, normal deviates by Box-Muller.
//!
//! Sample `n` of decoder block `b` in a stream of seed `s` is lane `n mod 4` of the counter `(n div 4, b, 0)` under the
//! key `s`, so a piece of a stream can be computed without the pieces before it. Salmon et al. 2011, "Parallel random
//! numbers: as easy as 1, 2, 3".

use std::sync::Arc;

#[doc(hidden)]
pub use melisma_kernels::layer::noise::{fill_normal, philox4x32};

/// The noise that the decoder's blocks add.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Noise {
    /// Nothing.
    Off,
    /// Normal deviates keyed by (seed, block, absolute sample).
    Seed(u64),
    /// The given deviates, one list for each block; zero beyond their ends.
    Given(Arc<[Vec<f32>]>),
}

impl Default for Noise {
    fn default() -> Self {
        Self::Seed(0)
    }
}

impl Noise {
    /// Writes the deviates of `block` for the absolute samples from `start` on; false, and nothing, when noise is off.
    pub fn fill(&self, block: usize, start: u64, out: &mut [f32]) -> bool {
        match self {
            Self::Off => return false,
            Self::Seed(seed) => fill_normal(*seed, block as u32, start, out),
            Self::Given(blocks) => {
                let given = blocks.get(block).map_or(&[][..], Vec::as_slice);
                for (n, sample) in out.iter_mut().enumerate() {
                    *sample = start
                        .checked_add(n as u64)
                        .and_then(|n| usize::try_from(n).ok())
                        .and_then(|n| given.get(n))
                        .copied()
                        .unwrap_or(0.0);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_equal_the_whole() {
        let mut whole = [0.0; 1000];
        fill_normal(7, 2, 5, &mut whole);
        for (start, len) in [(0, 1), (1, 3), (3, 10), (499, 501), (997, 3)] {
            let mut piece = vec![0.0; len];
            fill_normal(7, 2, 5 + start as u64, &mut piece);
            assert_eq!(piece, whole[start..start + len]);
        }
        let mut far = [0.0; 8];
        fill_normal(7, 2, u64::from(u32::MAX) * 4, &mut far);
        assert_ne!(far[..4], far[4..]);
    }

    #[test]
    fn deviates_are_normal() {
        let mut sample = vec![0.0; 200_000];
        fill_normal(1, 0, 0, &mut sample);
        let moment = |power: i32| sample.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / sample.len() as f64;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.01, "{} {}", moment(1), moment(2));
        assert!(moment(3).abs() < 0.03 && (moment(4) - 3.0).abs() < 0.1, "{} {}", moment(3), moment(4));
    }

    #[test]
    fn seeds_and_blocks_differ() {
        let draw = |seed, block| {
            let mut out = [0.0; 4];
            fill_normal(seed, block, 0, &mut out);
            out
        };
        assert_ne!(draw(0, 0), draw(1, 0));
        assert_ne!(draw(0, 0), draw(0, 1));
        assert_ne!(draw(0, 0), draw(1 << 32, 0));
    }
}
