use super::reference::attention;
use super::{Attention, Pass};
use crate::layer::step::Timeline;
use crate::layer::streams::{self, Shape, bits, compare, drive};
use crate::suite::{Bench, suite};

suite!(matches_reference, one_element, short_windows, model_shapes, chunks_give_the_bits_of_the_whole, refusals);

/// The driver's input is [q, k, v], and x is the v part; `skip` must be x, delayed.
fn check(bench: &Bench, [n_channels, head_dim, window]: [usize; 3], lens: &[usize]) {
    let from = Timeline { rate: 1, lag: 3 };
    let to = Timeline { rate: 1, lag: 3 + window - 1 };
    let layer = Attention { n_channels, head_dim, window, timeline: to };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in: 3 * n_channels, n_out: n_channels, from, to, state_len: plan.state_len() };
    let inputs = streams::inputs(shape, lens, 3);
    let expected: Vec<Vec<f64>> = inputs.iter().map(|x| attention(&layer, x)).collect();
    let values: Vec<Vec<f32>> = inputs
        .iter()
        .map(|qkv| qkv.chunks(3 * n_channels).flat_map(|row| row[2 * n_channels..].to_vec()).collect())
        .collect();
    let run = |chunks: &[usize], want_skip: u8| {
        drive(bench, shape, &inputs, chunks, |step, arena, activations| {
            let mut qkv = vec![0f32; activations.x.len()];
            bench.queue.copy(activations.x, qkv.as_mut_slice().into())?;
            let x: Vec<f32> = qkv.chunks(3 * n_channels).flat_map(|row| row[2 * n_channels..].to_vec()).collect();
            let mut x_dev = bench.tensor(&vec![0f32; x.len()]);
            bench.queue.copy(x.as_slice().into(), x_dev.view_mut()?)?;
            let mut other = bench.tensor(&vec![0f32; x.len()]);
            let (mixed, skip) =
                if want_skip == 0 { (activations.y, other.view_mut()?) } else { (other.view_mut()?, activations.y) };
            plan.run(&bench.queue, step, arena, Pass { qkv: activations.x, x: x_dev.view()?, mixed, skip })
        })
    };
    let found = run(&[4], 0);
    compare("attention", &found, &expected, 1e-5);
    assert_eq!(bits(&run(&[3], 1)), bits(&values));
    for chunks in [&[1][..], &[64], &[2, 0, 5, 1]] {
        assert_eq!(bits(&run(chunks, 0)), bits(&found), "{chunks:?}");
    }
}

fn matches_reference(bench: &Bench) {
    check(bench, [32, 16, 8], &[19, 8, 3]);
    check(bench, [20, 10, 5], &[11]);
}

fn one_element(bench: &Bench) {
    check(bench, [2, 2, 1], &[1, 0, 3]);
}

fn short_windows(bench: &Bench) {
    check(bench, [8, 4, 6], &[1, 5, 6, 7]);
}

fn model_shapes(bench: &Bench) {
    check(bench, [128, 64, 32], &[40, 32]);
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [64, 64, 32], &[33, 70]);
}

fn refusals(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 3 };
    let layer = Attention { n_channels: 6, head_dim: 4, window: 2, timeline };
    assert!(layer.plan(&bench.device, &bench.budget).is_err());
    let layer = Attention { n_channels: 8, window: 9, ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).is_err());
}
