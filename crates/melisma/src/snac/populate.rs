//! Tensor population: frames of seven codes in a row to the three levels of a 24 kHz model.

/// Codes per frame.
pub const FRAME_CODES: usize = 7;

/// Levels of n frames, and whether all codes of a level exist in its codebook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

/// As [`populate`], into buffers that are kept.
pub fn populate_into(frames: &[i32], codebook_size: i32, out: &mut Populated) {
    let (frames, _) = frames.as_chunks::<FRAME_CODES>();
    let [coarse, middle, fine] = &mut out.levels;
    coarse.clear();
    coarse.extend(frames.iter().map(|frame| frame[0]));
    middle.clear();
    middle.extend(frames.iter().flat_map(|frame| [frame[1], frame[4]]));
    fine.clear();
    fine.extend(frames.iter().flat_map(|frame| [frame[2], frame[3], frame[5], frame[6]]));
    for (valid, level) in out.valid.iter_mut().zip(&out.levels) {
        *valid = level.iter().all(|code| (0..codebook_size).contains(code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop of the document that this kernel replaces.
    fn reference(multiframe: &[i32]) -> [Vec<i32>; 3] {
        let num_frames = multiframe.len() / 7;
        let (mut codes_0, mut codes_1, mut codes_2) =
            (vec![0; num_frames], vec![0; num_frames * 2], vec![0; num_frames * 4]);
        for i in 0..num_frames {
            let base_idx = i * 7;
            codes_0[i] = multiframe[base_idx];
            codes_1[i * 2] = multiframe[base_idx + 1];
            codes_1[i * 2 + 1] = multiframe[base_idx + 4];
            codes_2[i * 4] = multiframe[base_idx + 2];
            codes_2[i * 4 + 1] = multiframe[base_idx + 3];
            codes_2[i * 4 + 2] = multiframe[base_idx + 5];
            codes_2[i * 4 + 3] = multiframe[base_idx + 6];
        }
        [codes_0, codes_1, codes_2]
    }

    #[test]
    fn equals_the_loop_for_1_to_64_frames() {
        let mut kept = Populated { levels: [vec![9; 1000], vec![], vec![7; 3]], valid: [false; 3] };
        for n_frames in 0..=64 {
            let frames: Vec<i32> = (0..n_frames * 7).map(|i| (i * 2_654_435) % 4096).collect();
            populate_into(&frames, 4096, &mut kept);
            assert_eq!(kept.levels, reference(&frames), "{n_frames} frames");
            assert_eq!(kept.valid, [true; 3]);
            assert_eq!(populate(&frames, 4096), kept);
        }
    }

    #[test]
    fn a_bad_code_spoils_its_level_only() {
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
    fn a_rest_is_left_out() {
        assert_eq!(populate(&[1; 13], 4096).levels[2], [1; 4]);
    }
}
