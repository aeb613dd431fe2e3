use super::reference::entry;
use super::{Entry, Plan};
use crate::layer::need;
use crate::layer::step::Timeline;
use crate::layer::streams::{self, Shape, bits};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Budget, Cpu, Device, Isa};

suite!(
    matches_reference,
    one_element,
    model_shapes,
    chunks_give_the_bits_of_the_whole,
    special_floats,
    need_is_what_the_plan_takes,
    refusals
);

/// Returns weight and bias.
fn weights(n_channels: usize) -> [Vec<f32>; 2] {
    let mut random = SplitMix64::new(n_channels as u64);
    [random.floats(n_channels * 7), random.floats(n_channels)]
}

/// Also checks that every device gives the same bits.
fn check(bench: &Bench, [n_channels, rate]: [usize; 2], lens: &[usize]) {
    let [weight, bias] = weights(n_channels);
    let (from, to) = (Timeline { rate, lag: 2 }, Timeline { rate, lag: 5 });
    let layer = Entry { n_channels, weight: &weight, bias: &bias, timeline: to };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in: 1, n_out: n_channels, from, to, state_len: plan.state_len() };
    streams::check(bench, ("entry", &plan), shape, (lens, 3), (|x: &[f32]| entry(&layer, x), 2e-6));

    let portable = Bench::new(Device::Cpu(Cpu { isa: Isa::SCALAR, threads: 1 }));
    let inputs = streams::inputs(shape, lens, 3);
    let run = |bench: &Bench| {
        let plan = layer.plan(&bench.device, &bench.budget).unwrap();
        let shape = Shape { state_len: plan.state_len(), ..shape };
        streams::drive(bench, shape, &inputs, &[3], |step, arena, activations| {
            plan.run(&bench.queue, step, arena, activations)
        })
    };
    assert_eq!(bits(&run(bench)), bits(&run(&portable)));
}

fn matches_reference(bench: &Bench) {
    check(bench, [16, 1], &[5, 12]);
    check(bench, [33, 7], &[7, 1]);
}

fn one_element(bench: &Bench) {
    check(bench, [1, 1], &[1, 0, 2]);
}

fn model_shapes(bench: &Bench) {
    check(bench, [48, 512], &[2, 1]);
    check(bench, [64, 441], &[1]);
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [6, 30], &[13, 8, 21]);
    check(bench, [1028, 1], &[9]);
}

/// A NaN or an infinity spoils the 7 rows around it and nothing else.
fn special_floats(bench: &Bench) {
    let [weight, bias] = weights(5);
    let timeline = Timeline { rate: 4, lag: 3 };
    let layer = Entry { n_channels: 5, weight: &weight, bias: &bias, timeline };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let from = Timeline { rate: 4, lag: 0 };
    let shape = Shape { n_in: 1, n_out: 5, from, to: timeline, state_len: plan.state_len() };
    for value in [f32::NAN, f32::INFINITY] {
        let mut x = vec![0.5; 32];
        x[13] = value;
        let found = streams::drive(bench, shape, &[x], &[3], |step, arena, activations| {
            plan.run(&bench.queue, step, arena, activations)
        });
        for (t, y) in found[0].chunks(5).enumerate() {
            assert_eq!(y.iter().all(|y| !y.is_finite()), (10..=16).contains(&t), "{value}, row {t}: {y:?}");
            assert_eq!(y.iter().all(|y| y.is_finite()), !(10..=16).contains(&t), "{value}, row {t}: {y:?}");
        }
    }
}

fn need_is_what_the_plan_takes(bench: &Bench) {
    let [weight, bias] = weights(18);
    let layer = Entry { n_channels: 18, weight: &weight, bias: &bias, timeline: Timeline { rate: 2, lag: 3 } };
    let plan = |budget: &Budget| layer.plan(&bench.device, budget).unwrap();
    streams::check_need(bench, need::entry(18), plan, Plan::state_len);
}

fn refusals(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 3 };
    let layer = Entry { n_channels: 2, weight: &[0.0; 13], bias: &[0.0; 2], timeline };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("weight"));
    let layer = Entry { weight: &[0.0; 14], bias: &[0.0], ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("bias"));
    let layer = Entry { n_channels: 0, weight: &[], bias: &[], ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("0 channels"));
}
