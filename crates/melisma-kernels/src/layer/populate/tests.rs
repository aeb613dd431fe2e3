use super::{LEVEL_CODES, Output, plan, reference};
use crate::Tensor;
use crate::suite::{Bench, suite};

suite!(equals_the_loop_for_0_to_64_frames, a_bad_code_spoils_its_level_only, large, wrong_lengths_are_refused);

fn run(bench: &Bench, frames: &[i32]) -> ([Vec<i32>; 3], [i32; 3]) {
    let frames_dev = bench.tensor::<i32>(frames);
    let mut levels = LEVEL_CODES.map(|per_frame| bench.tensor::<i32>(&vec![-77; frames.len() / 7 * per_frame]));
    let mut valid = bench.tensor::<i32>(&[-77; 3]);
    let output =
        Output { levels: levels.each_mut().map(|level| level.view_mut().unwrap()), valid: valid.view_mut().unwrap() };
    plan(&bench.device, 4096).unwrap().run(&bench.queue, frames_dev.view().unwrap(), output).unwrap();
    let valid = valid.to_vec::<i32>(&bench.queue).unwrap();
    (levels.each_ref().map(|level| level.to_vec(&bench.queue).unwrap()), valid.try_into().unwrap())
}

fn equals_the_loop_for_0_to_64_frames(bench: &Bench) {
    for n_frames in 0..=64 {
        let frames: Vec<i32> = (0..n_frames * 7).map(|i| (i * 2_654_435) % 4096).collect();
        assert_eq!(run(bench, &frames), (reference::populate(&frames), [1; 3]), "{n_frames} frames");
    }
}

/// Code 4096 is rejected, although the reference loop's own check accepts it.
fn a_bad_code_spoils_its_level_only(bench: &Bench) {
    for (slot, level) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 1), (5, 2), (6, 2)] {
        for bad in [4096, -1, i32::MAX, i32::MIN] {
            let mut frames = [4095; 21];
            frames[7 + slot] = bad;
            let mut expected = [1; 3];
            expected[level] = 0;
            assert_eq!(run(bench, &frames).1, expected, "slot {slot}, code {bad}");
        }
    }
}

fn large(bench: &Bench) {
    let mut frames: Vec<i32> = (0..7 * 1501).map(|i| i * 31 % 4096).collect();
    frames[7 * 1500 + 6] = 4096;
    assert_eq!(run(bench, &frames), (reference::populate(&frames), [1, 1, 0]));
}

fn wrong_lengths_are_refused(bench: &Bench) {
    let device = |len: usize| {
        let host = Tensor::from_slice(&bench.budget, &vec![0i32; len], &[len]).unwrap();
        host.to(&bench.queue, &bench.budget).unwrap()
    };
    for lens in [[13, 1, 2, 4, 3], [14, 2, 4, 7, 3], [7, 1, 2, 4, 2]] {
        let [frames, mut coarse, mut middle, mut fine, mut valid] = lens.map(device);
        let levels = [&mut coarse, &mut middle, &mut fine].map(|level| level.view_mut().unwrap());
        let output = Output { levels, valid: valid.view_mut().unwrap() };
        let plan = plan(&bench.device, 4096).unwrap();
        assert!(plan.run(&bench.queue, frames.view().unwrap(), output).is_err(), "{lens:?}");
    }
}
