use half::f16;

use super::{Batch, Edge, Mel, Offset, Order, Power, Sample, Scale, Value, reference};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{DType, Tensor};

suite!(
    matches_reference,
    model_sizes,
    every_size_of_transform,
    no_samples_and_no_frames,
    one_sample,
    lengths,
    integers_are_the_same_as_floats,
    prepared_frames,
    values_do_not_depend_on_what_is_beside_them,
    the_range_follows_the_frames_that_exist,
    special_floats,
    half_precision_rounds_the_same_values,
    wrong_parameters_are_refused,
);

/// Returns overlapping triangles of different heights, and one filter without weights.
fn filters(n_filters: usize, n_bins: usize) -> Vec<f32> {
    let mut filters = vec![0f32; n_filters * n_bins];
    for (f, row) in filters.chunks_mut(n_bins).enumerate().filter(|(f, _)| *f != 1) {
        let (centre, width) = ((f as f32 + 0.5) * n_bins as f32 / n_filters as f32, 1.0 + f as f32 / 4.0);
        for (k, weight) in row.iter_mut().enumerate() {
            *weight = (1.0 - (k as f32 - centre).abs() / width).max(0.0) / (1.0 + f as f32);
        }
    }
    filters
}

fn mel(n_fft: usize, hop_len: usize, n_filters: usize) -> Mel {
    Mel {
        n_fft,
        frame_len: n_fft,
        hop_len,
        pad: n_fft / 2,
        edge: Edge::Reflect,
        offset: Offset::Keep,
        pre_emphasis: 0.0,
        window: (0..n_fft).map(|n| 0.5 - 0.5 * (std::f64::consts::TAU * n as f64 / n_fft as f64).cos()).collect(),
        power: Power::Power,
        filters: filters(n_filters, n_fft / 2 + 1),
        scale: Scale::Linear,
        order: Order::FilterTime,
    }
}

const DECIBEL: Scale = Scale::Log { floor: 1e-10, gain: 4.342_945, offset: 0.0, range: None };

fn run<S: Sample, D: Value>(bench: &Bench, mel: &Mel, batch: Batch, samples: &[S]) -> Vec<D> {
    let plan = mel.clone().plan(&bench.device, &bench.budget).unwrap();
    let samples = Tensor::from_slice(&bench.budget, samples, &[samples.len()]).unwrap();
    let samples = samples.to(&bench.queue, &bench.budget).unwrap();
    let len = batch.n_items * batch.n_frames * mel.n_filters();
    let garbage: Vec<D> = vec![bytemuck::pod_read_unaligned(&[0xa5; 8][..size_of::<D>()]); len];
    let values = Tensor::from_slice(&bench.budget, &garbage, &[len]).unwrap();
    let mut values = values.to(&bench.queue, &bench.budget).unwrap();
    plan.run(&bench.queue, batch, samples.view::<S>().unwrap(), values.view_mut::<D>().unwrap()).unwrap();
    values.to_vec(&bench.queue).unwrap()
}

fn frames(mel: &Mel, n_samples: usize) -> usize {
    (n_samples + 2 * mel.pad).checked_sub(mel.frame_len).map_or(0, |rest| 1 + rest / mel.hop_len)
}

/// Compares with the reference: linear values relative to the item's largest, logarithmic ones in
/// their own unit.
fn check(bench: &Bench, mel: &Mel, n_items: usize, n_samples: usize) {
    check_samples(bench, mel, n_items, &SplitMix64::new(n_samples as u64 + 7).floats(n_items * n_samples));
}

fn check_samples(bench: &Bench, mel: &Mel, n_items: usize, samples: &[f32]) {
    let n_samples = samples.len() / n_items;
    let batch = Batch { n_items, n_samples, n_frames: frames(mel, n_samples) };
    let found: Vec<f32> = run(bench, mel, batch, samples);
    let item_len = batch.n_frames * mel.n_filters();
    for item in 0..n_items {
        let wide: Vec<f64> = samples[item * n_samples..][..n_samples].iter().map(|&x| f64::from(x)).collect();
        let expected = reference::run(mel, &wide, batch.n_frames);
        let largest = expected.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        let tolerance = match mel.scale {
            Scale::Linear => 2e-6 * largest + 1e-30,
            Scale::Log { gain, .. } => 1e-4 * f64::from(gain) + 1e-6 * largest,
        };
        for (index, (found, expected)) in found[item * item_len..].iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*found) - expected).abs() <= tolerance,
                "n_fft {}, hop {}, {n_samples} samples, item {item}, index {index}: {found}, not {expected}",
                mel.n_fft,
                mel.hop_len,
            );
        }
    }
}

fn matches_reference(bench: &Bench) {
    for edge in [Edge::Reflect, Edge::Mirror, Edge::Zero] {
        for scale in [Scale::Linear, DECIBEL, Scale::Log { floor: 1e-5, gain: 0.1, offset: 1.0, range: Some(0.3) }] {
            for order in [Order::FilterTime, Order::TimeFilter] {
                check(bench, &Mel { edge, scale, order, ..mel(64, 16, 5) }, 2, 700);
            }
        }
    }
    check(bench, &Mel { power: Power::Magnitude { epsilon: 1e-9 }, ..mel(64, 16, 5) }, 1, 300);
}

/// The last samples are at the quiet end of the last window; a frame after it would have them in
/// its middle.
fn the_range_follows_the_frames_that_exist(bench: &Bench) {
    for order in [Order::FilterTime, Order::TimeFilter] {
        let scale = Scale::Log { floor: 1e-10, gain: 1.0, offset: 0.0, range: Some(2.0) };
        let mel = Mel { pad: 0, scale, order, ..mel(64, 16, 5) };
        for n_frames in [1, 3, 35] {
            let mut samples: Vec<f32> = SplitMix64::new(5).floats(64 + 16 * (n_frames - 1));
            let n = samples.len();
            samples.iter_mut().for_each(|sample| *sample *= 1e-3);
            samples[n - 4..].fill(1.0);
            check_samples(bench, &mel, 1, &samples);
        }
    }
}

fn model_sizes(bench: &Bench) {
    check(bench, &mel(400, 160, 80), 1, 16_000 / 4);
    check(bench, &mel(1024, 256, 80), 1, 6000);
    check(bench, &mel(2048, 512, 128), 1, 5000);
    check(bench, &Mel { frame_len: 400, pad: 0, window: vec![1.0; 400], ..mel(512, 160, 80) }, 1, 3000);
}

fn every_size_of_transform(bench: &Bench) {
    for n_fft in (1..=34).chain([45, 48, 49, 62, 75, 96, 98, 121, 125, 128, 147, 154, 243, 256, 338, 512]) {
        check(bench, &mel(n_fft, 1 + n_fft / 3, 3), 1, 2 * n_fft + 5);
    }
}

fn no_samples_and_no_frames(bench: &Bench) {
    let none: Vec<f32> = run::<f32, f32>(bench, &mel(16, 4, 3), Batch { n_items: 0, n_samples: 9, n_frames: 2 }, &[]);
    assert!(none.is_empty());
    let batch = Batch { n_items: 1, n_samples: 0, n_frames: 2 };
    assert_eq!(run::<f32, f32>(bench, &mel(16, 4, 3), batch, &[]), [0.0; 6]);
}

fn one_sample(bench: &Bench) {
    check(bench, &mel(16, 4, 3), 3, 1);
    check(bench, &Mel { edge: Edge::Zero, ..mel(400, 160, 80) }, 1, 1);
}

fn lengths(bench: &Bench) {
    for n_samples in [2, 31, 33, 255, 257, 500, 517] {
        check(bench, &mel(32, 8, 4), 2, n_samples);
        check(bench, &Mel { pad: 12, ..mel(32, 8, 4) }, 1, n_samples);
        check(bench, &mel(32, 50, 4), 1, n_samples);
    }
}

fn integers_are_the_same_as_floats(bench: &Bench) {
    let integers: Vec<i16> = (0..2000).map(|i| (i as u32).wrapping_mul(40_503) as i16).collect();
    let floats: Vec<f32> = integers.iter().map(|&x| f32::from(x) / 32_768.0).collect();
    let mel = Mel { scale: DECIBEL, ..mel(128, 32, 20) };
    let batch = Batch { n_items: 2, n_samples: 1000, n_frames: frames(&mel, 1000) };
    let from_integers: Vec<f32> = run(bench, &mel, batch, &integers);
    assert_eq!(from_integers, run::<f32, f32>(bench, &mel, batch, &floats));
}

/// In sizes that have kernels of their own on a GPU, and in others.
fn prepared_frames(bench: &Bench) {
    for (n_fft, frame_len) in [(64, 50), (400, 300), (512, 400)] {
        let kaldi = Mel {
            frame_len,
            pad: 0,
            window: (1..=frame_len).map(|n| n as f64 / frame_len as f64).collect(),
            offset: Offset::Remove,
            pre_emphasis: 0.97,
            order: Order::TimeFilter,
            ..mel(n_fft, 2 * frame_len / 5, 9)
        };
        check(bench, &kaldi, 2, 15 * frame_len);
        check(bench, &Mel { offset: Offset::Keep, ..kaldi.clone() }, 1, 2 * frame_len - 10);
        check(bench, &Mel { pre_emphasis: 0.0, ..kaldi }, 1, frame_len);
    }
}

fn values_do_not_depend_on_what_is_beside_them(bench: &Bench) {
    for scale in [Scale::Linear, Scale::Log { floor: 1e-10, gain: 1.0, offset: 0.0, range: Some(2.0) }] {
        let mel = Mel { scale, ..mel(100, 30, 12) };
        let samples = SplitMix64::new(3).floats(5 * 1234);
        let n_frames = frames(&mel, 1234);
        let all: Vec<f32> = run(bench, &mel, Batch { n_items: 5, n_samples: 1234, n_frames }, &samples);
        for (item, all) in all.chunks(n_frames * 12).enumerate() {
            let batch = Batch { n_items: 1, n_samples: 1234, n_frames };
            let alone: Vec<f32> = run(bench, &mel, batch, &samples[item * 1234..][..1234]);
            assert_eq!(all, alone, "item {item}");
        }
    }
    // The same audio one hop later gives the same frames one lane later.
    let (mel, samples) = (Mel { pad: 0, ..mel(100, 30, 12) }, SplitMix64::new(4).floats(1000));
    let batch = |n_samples| Batch { n_items: 1, n_samples, n_frames: frames(&mel, n_samples) };
    let early: Vec<f32> = run(bench, &mel, batch(1000), &samples);
    let late: Vec<f32> = run(bench, &mel, batch(970), &samples[30..]);
    let (early_frames, late_frames) = (batch(1000).n_frames, batch(970).n_frames);
    for f in 0..12 {
        assert_eq!(early[f * early_frames + 1..][..late_frames], late[f * late_frames..][..late_frames]);
    }
}

fn special_floats(bench: &Bench) {
    for scale in [Scale::Linear, DECIBEL] {
        let mel = Mel { scale, pad: 0, ..mel(16, 16, 3) };
        let mut samples = vec![0.25f32; 16 * 40];
        samples[5 * 16 + 3] = f32::NAN;
        samples[7 * 16 + 3] = f32::INFINITY;
        let values: Vec<f32> = run(bench, &mel, Batch { n_items: 1, n_samples: samples.len(), n_frames: 40 }, &samples);
        for (index, value) in values.iter().enumerate() {
            // The second filter has no weights: it never sees the sample.
            let is_hit = [5, 7].contains(&(index % 40)) && index / 40 != 1;
            assert_eq!(value.is_finite(), !is_hit, "index {index}: {value}");
        }
    }
    let silence: Vec<f32> = run(
        bench,
        &Mel { scale: DECIBEL, ..mel(16, 16, 3) },
        Batch { n_items: 1, n_samples: 64, n_frames: 5 },
        &[0f32; 64],
    );
    assert!(silence.iter().all(|value| (value + 100.0).abs() < 1e-4), "{silence:?}");
}

fn half_precision_rounds_the_same_values(bench: &Bench) {
    let mel = Mel { scale: Scale::Log { floor: 1e-10, gain: 8.7, offset: 0.0, range: Some(60.0) }, ..mel(64, 16, 9) };
    let samples = SplitMix64::new(5).floats(3000);
    let batch = Batch { n_items: 1, n_samples: 3000, n_frames: frames(&mel, 3000) };
    let single: Vec<f32> = run(bench, &mel, batch, &samples);
    let half: Vec<f16> = run(bench, &mel, batch, &samples);
    assert_eq!(half, single.iter().map(|&value| f16::from_f32(value)).collect::<Vec<_>>());
}

fn wrong_parameters_are_refused(bench: &Bench) {
    let refused = |mel: Mel| mel.plan(&bench.device, &bench.budget).unwrap_err().to_string();
    assert!(refused(Mel { hop_len: 0, ..mel(16, 4, 3) }).contains("the hop is 0"));
    assert!(refused(Mel { frame_len: 17, ..mel(16, 4, 3) }).contains("at most 16"));
    assert!(refused(Mel { window: vec![1.0; 3], ..mel(16, 4, 3) }).contains("window"));
    assert!(refused(Mel { filters: Vec::new(), ..mel(16, 4, 3) }).contains("filters is 0"));
    assert!(refused(Mel { pre_emphasis: f32::NAN, ..mel(16, 4, 3) }).contains("not finite"));
    let scale = Scale::Log { floor: 0.0, gain: 1.0, offset: 0.0, range: None };
    assert!(refused(Mel { scale, ..mel(16, 4, 3) }).contains("floor of 0"));
    let plan = mel(16, 4, 3).plan(&bench.device, &bench.budget).unwrap();
    let samples = Tensor::new(&bench.device, &bench.budget, DType::F32, &[7]).unwrap();
    let mut values = Tensor::new(&bench.device, &bench.budget, DType::F32, &[6]).unwrap();
    let batch = Batch { n_items: 1, n_samples: 8, n_frames: 2 };
    let run = plan.run::<f32, f32>(&bench.queue, batch, samples.view().unwrap(), values.view_mut().unwrap());
    assert!(run.unwrap_err().to_string().contains("mel: samples: the plan is for 8 elements"));
    let huge = Batch { n_items: usize::MAX, n_samples: 8, n_frames: 2 };
    let run = plan.run::<f32, f32>(&bench.queue, huge, samples.view().unwrap(), values.view_mut().unwrap());
    assert!(run.unwrap_err().to_string().contains("overflows"));
}
