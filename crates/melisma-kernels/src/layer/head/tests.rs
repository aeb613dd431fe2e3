use super::Head;
use super::reference::head;
use crate::layer::step::{Activations, Arena, Row, Rows, Step, Timeline};
use crate::layer::streams::{self, Shape};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, one_element, model_shapes, chunks_give_the_bits_of_the_whole, refusals);

fn check(bench: &Bench, [n_channels, rate]: [usize; 2], lens: &[usize]) {
    let n = n_channels;
    let mut random = SplitMix64::new(n as u64);
    let alpha: Vec<f32> = random.floats(n).iter().map(|x| 1.5 + x).collect();
    let scale = 1.0 / (n as f32).sqrt();
    let weight: Vec<f32> = random.floats(n * 7).iter().map(|x| x * scale).collect();
    let (from, to) = (Timeline { rate, lag: 2 }, Timeline { rate, lag: 5 });
    let layer = Head { n_channels, alpha: &alpha, weight: &weight, bias: 0.3, timeline: to };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in: n, n_out: 1, from, to, state_len: plan.state_len() };
    streams::check(bench, ("head", &plan), shape, (lens, 3), (|x: &[f32]| head(&layer, x), 2e-6 * (n as f64).max(8.0)));
}

fn matches_reference(bench: &Bench) {
    check(bench, [16, 1], &[5, 12]);
    check(bench, [33, 7], &[7, 1]);
}

fn one_element(bench: &Bench) {
    check(bench, [1, 1], &[1, 0, 2]);
}

fn model_shapes(bench: &Bench) {
    check(bench, [64, 512], &[2, 1]);
    check(bench, [96, 384], &[1]);
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [8, 30], &[13, 8, 21]);
}

fn refusals(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 3 };
    let layer = Head { n_channels: 2, alpha: &[1.0; 2], weight: &[0.0; 13], bias: 0.0, timeline };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("weight"));
    let layer = Head { weight: &[0.0; 14], alpha: &[1.0], ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("alpha"));
    let plan = Head { alpha: &[1.0; 2], ..layer }.plan(&bench.device, &bench.budget).unwrap();
    let mut rows = Rows::new(&bench.device, &bench.budget, 1, 1).unwrap();
    rows.set(&bench.queue, &[Row::default()]).unwrap();
    let run = |n_x: usize, n_y: usize, slot_len: usize| {
        let zeros = |n: usize| bench.tensor(&vec![0f32; n]);
        let (x, mut y, mut floats) = (zeros(n_x), zeros(n_y), zeros(slot_len));
        let arena = Arena { floats: floats.view_mut().unwrap(), slot_len, offset: 0 };
        let activations = Activations { x: x.view().unwrap(), y: y.view_mut().unwrap() };
        plan.run(&bench.queue, Step { rows: &rows, n_latents: 4 }, arena, activations)
    };
    let len = plan.state_len();
    run(8, 4, len).unwrap();
    for (n_x, n_y, slot_len) in [(7, 4, len), (9, 4, len), (8, 3, len), (8, 5, len), (8, 4, len - 1)] {
        assert!(run(n_x, n_y, slot_len).is_err(), "{n_x}, {n_y}, {slot_len}");
    }
}
