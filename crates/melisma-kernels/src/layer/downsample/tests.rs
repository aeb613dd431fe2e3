use super::reference::downsample;
use super::{Downsample, Plan, n_past};
use crate::layer::need::{self, Work};
use crate::layer::step::Timeline;
use crate::layer::streams::{self, Shape};
use crate::layer::strided::Strided;
use crate::layer::strided::case::{ODD_STRIDES, ONE_ELEMENT, PLAIN, UNEVEN, WRONG, Weights};
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
    let (to, k) = (from.downsampled(stride), 2 * stride * n_in);
    let weights = Weights::new([n_in, n_out, stride], k);
    let layer = weights.layer(to);
    let plan = Downsample { layer, from }.plan(&bench.device, &bench.budget).unwrap();
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
    PLAIN.iter().for_each(|(shape, lens)| check(bench, *shape, lens));
}

fn odd_strides(bench: &Bench) {
    ODD_STRIDES.iter().for_each(|(shape, lens)| check(bench, *shape, lens));
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
    ONE_ELEMENT.iter().for_each(|(shape, lens)| check(bench, *shape, lens));
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
    let (shape @ [n_in, n_out, stride], from) = ([6, 40, 3], Timeline { rate: 3, lag: 4 });
    let need = need::downsample([n_in, n_out], stride, from, Work { n_rows: 1, threads: 1 });
    let weights = Weights::new(shape, 1);
    let layer = Downsample { layer: weights.layer(from.downsampled(stride)), from };
    let plan = |budget: &Budget| layer.plan(&bench.device, budget).unwrap();
    streams::check_need(bench, need, plan, Plan::state_len);
}

fn refusals(bench: &Bench) {
    let refusal = |layer, from| Downsample { layer, from }.plan(&bench.device, &bench.budget).unwrap_err().to_string();
    for (layer, reason) in WRONG {
        assert!(refusal(layer, layer.timeline).contains(reason), "{reason}");
    }
    if matches!(bench.device, Device::Cuda(_)) {
        let (stride, from) = (6145, Timeline { rate: 6145, lag: 0 });
        let (timeline, weight) = (from.downsampled(stride), &[0.0; 2 * 6145]);
        assert!(refusal(Strided { stride, weight, timeline, ..UNEVEN }, from).contains("at most 12288"));
    }
    let (from, late) = (Timeline { rate: 4, lag: 1 }, Timeline { rate: 2, lag: 2 });
    assert!(refusal(Strided { timeline: late, ..UNEVEN }, from).contains("Timeline { rate: 2, lag: 1 }"));
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
