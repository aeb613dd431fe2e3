//! Tensor population: frames of seven codes in a row to the three levels of a 24 kHz model.

use melisma_kernels::layer::populate as kernel;
#[doc(hidden)]
pub use melisma_kernels::layer::populate::{FRAME_CODES, LEVEL_CODES};

/// Levels of n frames, and whether all codes of a level exist in its codebook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Populated {
    /// `[n]`, `[2n]`, `[4n]`
    pub levels: [Vec<i32>; 3],
    /// One flag for each level: every code is in `0..codebook_size`.
    pub valid: [bool; 3],
}

/// Spreads `frames`, `[n, 7]`, over the levels, and checks every code. Codes after the last whole frame are left out.
pub fn populate(frames: &[i32], codebook_size: i32) -> Populated {
    let mut out = Populated::default();
    populate_into(frames, codebook_size, &mut out);
    out
}

/// Works like [`populate`], into buffers that are used again.
pub fn populate_into(frames: &[i32], codebook_size: i32, out: &mut Populated) {
    let n_frames = frames.len() / FRAME_CODES;
    for (level, per_frame) in out.levels.iter_mut().zip(LEVEL_CODES) {
        level.resize(n_frames * per_frame, 0);
    }
    out.valid = kernel::populate(frames, codebook_size, out.levels.each_mut().map(Vec::as_mut_slice));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snac::{Codes, Config};

    /// Returns levels slot by slot.
    fn reference(frames: &[i32]) -> Vec<Vec<i32>> {
        Codes::from_frames(&Config::snac_24khz(), frames).unwrap().levels()
    }

    #[test]
    fn equals_the_order_of_slots_for_0_to_64_frames() {
        let mut reused = Populated { levels: [vec![9; 1000], vec![], vec![7; 3]], valid: [false; 3] };
        for n_frames in 0..=64 {
            let frames: Vec<i32> = (0..n_frames * 7).map(|i| (i * 2_654_435) % 4096).collect();
            populate_into(&frames, 4096, &mut reused);
            assert_eq!(reused.levels.as_slice(), reference(&frames), "{n_frames} frames");
            assert_eq!(reused.valid, [true; 3]);
            assert_eq!(populate(&frames, 4096), reused);
        }
    }

    #[test]
    fn a_bad_code_invalidates_its_level_only() {
        for (slot, level) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 1), (5, 2), (6, 2)] {
            for bad in [4096, -1, i32::MAX, i32::MIN] {
                let mut frames = [4095; 21];
                frames[7 + slot] = bad;
                let mut expected = [true; 3];
                expected[level] = false;
                assert_eq!(populate(&frames, 4096).valid, expected, "slot {slot}, code {bad}");
            }
        }
    }

    #[test]
    fn codes_after_the_last_whole_frame_are_left_out() {
        assert_eq!(populate(&[1; 13], 4096).levels[2], [1; 4]);
    }
}
