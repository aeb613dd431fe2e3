use super::Depthwise;
use super::reference::depthwise;
use crate::layer::step::Timeline;
use crate::layer::streams::{self, Shape};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, snac_entry, one_element, chunks_give_the_bits_of_the_whole, refusals);

fn check(bench: &Bench, [n_channels, n_taps, rate]: [usize; 3], lens: &[usize]) {
    let mut random = SplitMix64::new(n_channels as u64);
    let (weight, bias) = (random.floats(n_channels * n_taps), random.floats(n_channels));
    let from = Timeline { rate, lag: 5 };
    let to = Timeline { rate, lag: 5 + n_taps / 2 };
    let layer = Depthwise { n_channels, n_taps, weight: &weight, bias: &bias, timeline: to };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in: n_channels, n_out: n_channels, from, to, state_len: plan.state_len() };
    streams::check(bench, ("depthwise", &plan), shape, (lens, 7), (|x: &[f32]| depthwise(&layer, x), 1e-5));
}

fn matches_reference(bench: &Bench) {
    check(bench, [33, 7, 1], &[9, 4, 1]);
    check(bench, [16, 3, 3], &[2, 5]);
}

fn snac_entry(bench: &Bench) {
    check(bench, [768, 7, 1], &[8, 3]);
    check(bench, [1024, 7, 1], &[8]);
}

fn one_element(bench: &Bench) {
    check(bench, [1, 1, 1], &[1]);
    check(bench, [1, 3, 1], &[0, 1, 2]);
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [48, 7, 2], &[17, 11, 30]);
}

fn refusals(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 1 };
    let layer = Depthwise { n_channels: 2, n_taps: 3, weight: &[0.0; 5], bias: &[0.0; 2], timeline };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("weight"));
    let layer = Depthwise { n_taps: 2, weight: &[0.0; 4], ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("odd"));
}
