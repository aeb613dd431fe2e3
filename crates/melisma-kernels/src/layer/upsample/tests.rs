use super::Upsample;
use super::reference::upsample;
use crate::Device;
use crate::layer::step::Timeline;
use crate::layer::streams::{self, Shape};
use crate::layer::strided::case::{ODD_STRIDES, ONE_ELEMENT, PLAIN, WRONG, Weights};
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
    let from = Timeline { rate, lag: 3 };
    let to = Timeline { rate: rate * stride, lag: 3 * stride + stride.div_ceil(2) };
    let weights = Weights::new([n_in, n_out, stride], n_in);
    let layer = weights.layer(to);
    let plan = Upsample(layer).plan(&bench.device, &bench.budget).unwrap();
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
    PLAIN.iter().for_each(|(shape, lens)| check(bench, *shape, lens));
}

fn odd_strides(bench: &Bench) {
    ODD_STRIDES.iter().for_each(|(shape, lens)| check(bench, *shape, lens));
}

fn one_element(bench: &Bench) {
    ONE_ELEMENT.iter().for_each(|(shape, lens)| check(bench, *shape, lens));
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
        let rate = if matches!(bench.device, Device::Cpu(_)) { 16 } else { 64 };
        check_at(bench, rate, [64, 32, 2], &[64, 60, 30]);
        check_at(bench, rate, [100, 50, 4], &[64, 60, 30]);
    }
}

fn refusals(bench: &Bench) {
    for (layer, reason) in WRONG {
        let error = Upsample(layer).plan(&bench.device, &bench.budget).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}
