//! Deviates in f64: the same library functions on every instruction set.

use crate::layer::step::{Step, Timeline};

pub(super) fn run(blocks: &[Timeline], step: Step<'_>, mut deviates: &mut [f32]) {
    for (block, timeline) in blocks.iter().enumerate() {
        let len = step.n_latents * timeline.rate;
        for row in step.rows.as_slice() {
            let (out, rest) = deviates.split_at_mut(len);
            deviates = rest;
            let live = timeline.live(row, step.n_latents);
            out.fill(0.0);
            if row.noise != 0 && !live.is_empty() {
                let start = timeline.first(row) + live.start as i64;
                fill_normal(row.seed as u64, block as u32, start as u64, &mut out[live]);
            }
        }
    }
}

/// Fills `out` with standard normal deviates of `block` under `seed`, for the absolute samples starting at `start`.
pub fn fill_normal(seed: u64, block: u32, start: u64, out: &mut [f32]) {
    let mut group = None;
    let mut lanes = [0.0; 4];
    for (index, sample) in out.iter_mut().enumerate() {
        let n = start.wrapping_add(index as u64);
        if group != Some(n / 4) {
            group = Some(n / 4);
            let index = n / 4;
            let bits = philox4x32([index as u32, (index >> 32) as u32, block, 0], [seed as u32, (seed >> 32) as u32]);
            lanes = box_muller(bits);
        }
        *sample = lanes[(n % 4) as usize];
    }
}

/// Computes ten rounds of Philox with four 32-bit words.
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// Uses the upper 24 bits of a word, which a 32-bit float holds exactly.
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

    /// The known answers from the authors' implementation.
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
}
