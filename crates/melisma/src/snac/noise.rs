//! Noise that depends on the position alone: Philox4x32-10 counters, normal deviates by Box-Muller.
//!
//! Sample `n` of decoder block `b` in a stream of seed `s` is lane `n mod 4` of the counter `(n div 4, b, 0)` under the
//! key `s`, so that a piece of a stream can be made without the pieces before it. Salmon et al. 2011, "Parallel random
//! numbers: as easy as 1, 2, 3".

use std::sync::Arc;

/// What the decoder's noise blocks add.
#[derive(Debug, Clone, PartialEq)]
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
                for (sample, n) in out.iter_mut().zip(start..) {
                    *sample = usize::try_from(n).ok().and_then(|n| given.get(n)).copied().unwrap_or(0.0);
                }
            }
        }
        true
    }
}

/// Standard normal deviates of stream `block` under `seed`, for the absolute samples from `start` on.
pub fn fill_normal(seed: u64, block: u32, start: u64, out: &mut [f32]) {
    let mut group = None;
    let mut lanes = [0.0; 4];
    for (sample, n) in out.iter_mut().zip(start..) {
        if group != Some(n / 4) {
            group = Some(n / 4);
            let index = n / 4;
            let bits = philox4x32([index as u32, (index >> 32) as u32, block, 0], [seed as u32, (seed >> 32) as u32]);
            lanes = box_muller(bits);
        }
        *sample = lanes[(n % 4) as usize];
    }
}

/// Ten rounds of Philox with four 32-bit words.
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// Words 0 and 1 make lanes 0 and 1, words 2 and 3 make lanes 2 and 3. The upper 24 bits of a word are used, which a
/// 32-bit float holds exactly: radius from (0, 1], angle from [0, 1) turns.
fn box_muller(bits: [u32; 4]) -> [f32; 4] {
    let unit = |word: u32| f64::from(word >> 8) / 16_777_216.0;
    let pair = |a: u32, b: u32| {
        let radius = (-2.0 * (unit(a) + 1.0 / 16_777_216.0).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * unit(b)).sin_cos();
        [(radius * cos) as f32, (radius * sin) as f32]
    };
    let [[a, b], [c, d]] = [pair(bits[0], bits[1]), pair(bits[2], bits[3])];
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that come with the authors' implementation.
    #[test]
    fn philox_known_answers() {
        let cases = [
            ([0; 4], [0; 2], [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]),
            (
                [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344],
                [0xA409_3822, 0x299F_31D0],
                [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

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
