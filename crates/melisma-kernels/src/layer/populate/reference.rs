//! The obvious loop over frames.

pub(super) fn populate(multiframe: &[i32]) -> [Vec<i32>; 3] {
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
