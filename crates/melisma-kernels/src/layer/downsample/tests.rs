use super::reference::downsample;
use super::{Downsample, Plan, n_past};
use crate::layer::need::{self, Work};
use crate::layer::step::{Rounding, Timeline};
use crate::layer::streams::{self, Shape};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Budget, Device};

suite!(
    matches_reference,
    odd_strides,
    every_lag,
    one_element,
    model_shapes,
    chunks_give_the_bits_of_the_whole,
    every_form_gives_the_same_bits,
    need_is_what_the_plan_takes,
    refusals
);

fn check(bench: &Bench, shape: [usize; 3], lens: &[usize]) {
    check_at(bench, Timeline { rate: 2 * shape[2], lag: 3 }, shape, lens);
}

/// `from` is the timeline of the input.
fn check_at(bench: &Bench, from: Timeline, [n_in, n_out, stride]: [usize; 3], lens: &[usize]) {
    let mut random = SplitMix64::new((n_in * stride) as u64);
    let k = 2 * stride * n_in;
    let alpha: Vec<f32> = random.floats(n_in).iter().map(|x| 1.5 + x).collect();
    let scale = 1.0 / (k as f32).sqrt();
    let weight: Vec<f32> = random.floats(n_out * k).iter().map(|x| x * scale).collect();
    let bias = random.floats(n_out);
    let to = from.downsampled(stride);
    let layer = Downsample {
        n_in,
        n_out,
        stride,
        alpha: &alpha,
        weight: &weight,
        bias: &bias,
        from,
        timeline: to,
        rounding: Rounding::Off,
    };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in, n_out, from, to, state_len: plan.state_len() };
    streams::check(
        bench,
        ("downsample", &plan),
        shape,
        (lens, 3),
        (|x: &[f32]| downsample(&layer, x), 4e-6 * (k as f64).sqrt()),
    );
}

fn matches_reference(bench: &Bench) {
    check(bench, [16, 8, 8], &[5, 2]);
    check(bench, [33, 17, 2], &[7]);
}

fn odd_strides(bench: &Bench) {
    check(bench, [8, 4, 3], &[4, 1, 6]);
    check(bench, [6, 3, 5], &[4]);
    check(bench, [4, 2, 1], &[9]);
}

/// From the least memory to the most: the seam between memory and step is at every input of a
/// stride.
fn every_lag(bench: &Bench) {
    for lag in 0..9 {
        check_at(bench, Timeline { rate: 8, lag }, [4, 2, 8], &[3]);
        check_at(bench, Timeline { rate: 3, lag }, [3, 5, 3], &[3, 2]);
    }
}

fn one_element(bench: &Bench) {
    check(bench, [1, 1, 1], &[1, 0]);
    check(bench, [1, 1, 4], &[1]);
}

fn model_shapes(bench: &Bench) {
    check(bench, [48, 96, 2], &[3]);
    check(bench, [128, 256, 3], &[1]);
    if matches!(bench.device, Device::Cpu(_)) || !on_shim() {
        check(bench, [96, 192, 4], &[3]);
        check(bench, [192, 384, 8], &[2, 1]);
        check(bench, [384, 768, 8], &[1]);
        check(bench, [512, 1024, 8], &[1]);
    }
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [24, 48, 4], &[13, 8, 21]);
}

/// Steps of 64 latents have enough columns for the four many-column forms, on a large GPU and on
/// the shim's small one; the other steps use the few-column form.
fn every_form_gives_the_same_bits(bench: &Bench) {
    let large = matches!(bench.device, Device::Cuda(_)) && !on_shim();
    let (rate, lens) = if large { (160, [64, 60]) } else { (4, [6, 5]) };
    for shape @ [_, _, stride] in [[18, 40, 2], [16, 96, 2], [48, 40, 4], [46, 72, 4]] {
        check_at(bench, Timeline { rate: rate * stride, lag: 3 }, shape, &lens);
    }
}

fn on_shim() -> bool {
    std::env::var_os("MELISMA_SHIM").is_some()
}

fn need_is_what_the_plan_takes(bench: &Bench) {
    let (n_in, n_out, stride) = (6, 40, 3);
    let from = Timeline { rate: 3, lag: 4 };
    let timeline = from.downsampled(stride);
    let need = need::downsample([n_in, n_out], stride, from, Work { n_rows: 1, threads: 1 });
    let layer = Downsample {
        n_in,
        n_out,
        stride,
        alpha: &[1.0; 6],
        weight: &[0.0; 40 * 6 * 6],
        bias: &[0.0; 40],
        from,
        timeline,
        rounding: Rounding::Off,
    };
    let plan = |budget: &Budget| layer.plan(&bench.device, budget).unwrap();
    streams::check_need(bench, need, plan, Plan::state_len);
}

fn refusals(bench: &Bench) {
    let from = Timeline { rate: 3, lag: 1 };
    let layer = Downsample {
        n_in: 1,
        n_out: 1,
        stride: 2,
        alpha: &[1.0],
        weight: &[0.0; 4],
        bias: &[0.0],
        from,
        timeline: from,
        rounding: Rounding::Off,
    };
    let refusal = |layer: Downsample<'_>| layer.plan(&bench.device, &bench.budget).unwrap_err().to_string();
    assert!(refusal(layer).contains("not a multiple of 2"));
    assert!(refusal(Downsample { stride: 0, weight: &[], ..layer }).contains("not a multiple of 0"));
    assert!(refusal(Downsample { weight: &[0.0; 3], ..layer }).contains("weight"));
    assert!(refusal(Downsample { alpha: &[], ..layer }).contains("alpha"));
    assert!(refusal(Downsample { bias: &[], ..layer }).contains("bias"));
    let from = Timeline { rate: 4, lag: 1 };
    if matches!(bench.device, Device::Cuda(_)) {
        let (stride, from) = (6145, Timeline { rate: 6145, lag: 0 });
        let (timeline, weight) = (from.downsampled(stride), &[0.0; 2 * 6145]);
        assert!(refusal(Downsample { stride, weight, from, timeline, ..layer }).contains("at most 12288"));
    }
    let late = Timeline { rate: 2, lag: 2 };
    assert!(refusal(Downsample { from, timeline: late, ..layer }).contains("Timeline { rate: 2, lag: 1 }"));
}

#[test]
fn an_output_comes_with_the_last_input_it_needs() {
    for stride in 1..=9 {
        for lag in 0..4 * stride {
            let from = Timeline { rate: 3 * stride, lag };
            let to = from.downsampled(stride);
            assert_eq!(to.rate, 3);
            // The inputs that have arrived after enough latents, and those that output j needs.
            let n_latents = 40;
            let arrived = n_latents * from.rate - from.lag;
            let needed = |j: usize| j * stride + 2 * stride - stride.div_ceil(2);
            let n_outputs = n_latents * to.rate - to.lag;
            assert!(needed(n_outputs - 1) <= arrived && needed(n_outputs) > arrived, "{stride}, {lag}");
            // The next output's first input is the oldest that is remembered.
            let first = n_outputs * stride - stride.div_ceil(2);
            assert_eq!(n_past(from, stride), arrived - first, "{stride}, {lag}");
        }
    }
}
