use super::reference::depthwise;
use super::{Depthwise, Plan};
use crate::layer::step::Timeline;
use crate::layer::streams::{self, Shape, bits, compare, drive};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, snac_entry, one_element, chunks_give_the_bits_of_the_whole, refusals);

fn run(bench: &Bench, plan: &Plan, shape: Shape, streams: &[Vec<f32>], chunks: &[usize]) -> Vec<Vec<f32>> {
    drive(bench, shape, streams, chunks, |step, arena, activations| plan.run(&bench.queue, step, arena, activations))
}

fn check(bench: &Bench, [n_channels, n_taps, rate]: [usize; 3], lens: &[usize]) {
    let mut random = SplitMix64::new(n_channels as u64);
    let (weight, bias) = (random.floats(n_channels * n_taps), random.floats(n_channels));
    let from = Timeline { rate, lag: 5 };
    let to = Timeline { rate, lag: 5 + n_taps / 2 };
    let layer = Depthwise { n_channels, n_taps, weight: &weight, bias: &bias, timeline: to };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in: n_channels, n_out: n_channels, from, to, state_len: plan.state_len() };
    let inputs = streams::inputs(shape, lens, 7);
    let expected: Vec<Vec<f64>> = inputs.iter().map(|x| depthwise(&layer, x)).collect();
    let found = run(bench, &plan, shape, &inputs, &[4]);
    compare("depthwise", &found, &expected, 1e-5);
    for chunks in [&[1][..], &[64], &[2, 0, 5, 1]] {
        assert_eq!(bits(&run(bench, &plan, shape, &inputs, chunks)), bits(&found), "{chunks:?}");
    }
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
