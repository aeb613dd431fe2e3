use super::reference::embed;
use super::{Embed, Level};
use crate::Tensor;
use crate::layer::step::{Row, Rows, Step};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, one_element, nothing, codes_outside, ends, model_shapes, refusals);

struct Weights {
    codebook: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

fn weights(n_levels: usize, [n_codes, n_channels, dim]: [usize; 3]) -> Vec<Weights> {
    let mut random = SplitMix64::new(n_channels as u64);
    let mut level = || Weights {
        codebook: random.floats(n_codes * dim),
        weight: random.floats(n_channels * dim),
        bias: random.floats(n_channels),
    };
    (0..n_levels).map(|_| level()).collect()
}

/// The code order of Orpheus.
const PLACES: [&[usize]; 3] = [&[0], &[1, 4], &[2, 3, 5, 6]];

fn levels(weights: &[Weights]) -> Vec<Level<'_>> {
    weights
        .iter()
        .zip(PLACES)
        .map(|(weights, places)| Level {
            stride: 4 / places.len(),
            places,
            codebook: &weights.codebook,
            weight: &weights.weight,
            bias: &weights.bias,
        })
        .collect()
}

fn run(bench: &Bench, layer: &Embed<'_>, list: &[Row], codes: &[i32]) -> Vec<f32> {
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let mut rows = Rows::new(&bench.device, &bench.budget, list.len(), 8).unwrap();
    rows.set(&bench.queue, list).unwrap();
    let n_latents = codes.len() / layer.frame_codes() / list.len().max(1) * layer.frame_latents;
    let len = list.len() * n_latents * layer.n_channels;
    let codes = Tensor::from_slice(&bench.budget, codes, &[codes.len()]).unwrap();
    let codes = codes.to(&bench.queue, &bench.budget).unwrap();
    let dirty = Tensor::from_slice(&bench.budget, &vec![f32::NAN; len], &[len]).unwrap();
    let mut y = dirty.to(&bench.queue, &bench.budget).unwrap();
    let step = Step { rows: &rows, n_latents };
    plan.run(&bench.queue, step, codes.view().unwrap(), y.view_mut().unwrap()).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn check(bench: &Bench, [n_codes, n_channels, dim]: [usize; 3], [n_rows, n_frames]: [usize; 2]) {
    let weights = weights(3, [n_codes, n_channels, dim]);
    let layer = Embed { n_channels, dim, frame_latents: 4, levels: &levels(&weights) };
    let mut random = SplitMix64::new(9);
    let codes: Vec<i32> = (0..n_rows * n_frames * 7).map(|_| (random.bits() % n_codes as u64) as i32).collect();
    let found = run(bench, &layer, &vec![Row::default(); n_rows], &codes);
    let expected = embed(&layer, &codes);
    assert_eq!(found.len(), expected.len());
    for (index, (&found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(found) - expected).abs() < 1e-5, "index {index}: {found}, not {expected}");
    }
}

fn matches_reference(bench: &Bench) {
    check(bench, [50, 33, 8], [3, 5]);
    check(bench, [7, 64, 3], [1, 2]);
}

fn one_element(bench: &Bench) {
    let weights = weights(1, [1, 1, 1]);
    let level = Level {
        stride: 1,
        places: &[0],
        codebook: &weights[0].codebook,
        weight: &weights[0].weight,
        bias: &weights[0].bias,
    };
    let layer = Embed { n_channels: 1, dim: 1, frame_latents: 1, levels: &[level] };
    let expected = weights[0].codebook[0].mul_add(weights[0].weight[0], weights[0].bias[0]);
    assert_eq!(run(bench, &layer, &[Row::default()], &[0]), [expected]);
}

fn nothing(bench: &Bench) {
    check(bench, [5, 8, 2], [0, 3]);
    check(bench, [5, 8, 2], [2, 0]);
}

fn codes_outside(bench: &Bench) {
    let weights = weights(3, [10, 4, 2]);
    let layer = Embed { n_channels: 4, dim: 2, frame_latents: 4, levels: &levels(&weights) };
    let wild = run(bench, &layer, &[Row::default()], &[10, -1, i32::MAX, i32::MIN, 9, 0, 3]);
    assert_eq!(wild, run(bench, &layer, &[Row::default()], &[9, 0, 9, 0, 9, 0, 3]));
}

fn ends(bench: &Bench) {
    let weights = weights(3, [10, 4, 2]);
    let layer = Embed { n_channels: 4, dim: 2, frame_latents: 4, levels: &levels(&weights) };
    let codes: Vec<i32> = (0..28).map(|i| i % 10).collect();
    let rows = [Row { start: 4, end: 10, ..Row::default() }, Row { start: 8, end: 8, ..Row::default() }];
    let open = run(bench, &layer, &[Row::default(); 2], &codes);
    let found = run(bench, &layer, &rows, &codes);
    assert_eq!(found[..24], open[..24]);
    assert!(found[24..].iter().all(|&x| x.to_bits() == 0));
}

fn model_shapes(bench: &Bench) {
    check(bench, [4096, 768, 8], [2, 1]);
}

fn refusals(bench: &Bench) {
    let weights = weights(3, [10, 4, 2]);
    let mut levels = levels(&weights);
    levels[1].places = &[1, 7];
    let layer = Embed { n_channels: 4, dim: 2, frame_latents: 4, levels: &levels };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("level 1"));
}
