use super::Upsample;
use super::reference::upsample;
use crate::Device;
use crate::layer::step::{Rounding, Timeline};
use crate::layer::streams::{self, Shape};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(
    matches_reference,
    odd_strides,
    one_element,
    model_shapes,
    chunks_give_the_bits_of_the_whole,
    every_form_gives_the_same_bits,
    refusals
);

fn check(bench: &Bench, shape: [usize; 3], lens: &[usize]) {
    check_at(bench, 2, shape, lens);
}

/// Inputs have `rate` rows per latent.
fn check_at(bench: &Bench, rate: usize, [n_in, n_out, stride]: [usize; 3], lens: &[usize]) {
    let mut random = SplitMix64::new((n_in * stride) as u64);
    let alpha: Vec<f32> = random.floats(n_in).iter().map(|x| 1.5 + x).collect();
    let scale = 1.0 / (n_in as f32).sqrt();
    let weight: Vec<f32> = random.floats(n_in * n_out * stride * 2).iter().map(|x| x * scale).collect();
    let bias = random.floats(n_out);
    let from = Timeline { rate, lag: 3 };
    let to = Timeline { rate: rate * stride, lag: 3 * stride + stride.div_ceil(2) };
    let rounding = Rounding::Off;
    let layer = Upsample { n_in, n_out, stride, alpha: &alpha, weight: &weight, bias: &bias, timeline: to, rounding };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in, n_out, from, to, state_len: plan.state_len() };
    streams::check(
        bench,
        ("upsample", &plan),
        shape,
        (lens, 3),
        (|x: &[f32]| upsample(&layer, x), 4e-6 * (n_in as f64).max(4.0)),
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

fn one_element(bench: &Bench) {
    check(bench, [1, 1, 1], &[1, 0]);
    check(bench, [1, 1, 4], &[1]);
}

fn model_shapes(bench: &Bench) {
    check(bench, [128, 64, 2], &[3]);
    if matches!(bench.device, Device::Cpu(_)) {
        check(bench, [512, 256, 8], &[2, 1]);
        check(bench, [256, 128, 4], &[3]);
    }
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [48, 24, 4], &[13, 8, 21]);
}

/// Enough columns for the many-column forms on a large GPU; the small chunks use the few-column form.
fn every_form_gives_the_same_bits(bench: &Bench) {
    if std::env::var_os("MELISMA_SHIM").is_none() {
        check_at(bench, 64, [64, 32, 2], &[64, 60, 30]);
        check_at(bench, 64, [100, 50, 4], &[64, 60, 30]);
    }
}

fn refusals(bench: &Bench) {
    let timeline = Timeline { rate: 3, lag: 1 };
    let layer = Upsample {
        n_in: 1,
        n_out: 1,
        stride: 2,
        alpha: &[1.0],
        weight: &[0.0; 4],
        bias: &[0.0],
        timeline,
        rounding: Rounding::Off,
    };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("not a multiple of 2"));
    let layer = Upsample { weight: &[0.0; 3], ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).is_err());
}
