use super::Norm;
use super::reference::norm;
use crate::layer::step::{Activations, Row, Rows, Step};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, one_element, nothing, constant_rows, model_shapes, refusals);

fn run(bench: &Bench, layer: &Norm<'_>, n_rows: usize, x: &[f32]) -> Vec<f32> {
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let mut rows = Rows::new(&bench.device, &bench.budget, n_rows, 1).unwrap();
    rows.set(&bench.queue, &vec![Row::default(); n_rows]).unwrap();
    let (x_dev, mut y) = (bench.tensor::<f32>(x), bench.tensor::<f32>(&vec![f32::NAN; x.len()]));
    let n_latents = x.len() / layer.n_channels / n_rows.max(1) / layer.rate;
    let activations = Activations { x: x_dev.view().unwrap(), y: y.view_mut().unwrap() };
    plan.run(&bench.queue, Step { rows: &rows, n_latents }, activations).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn check(bench: &Bench, [n_channels, n_rows, len]: [usize; 3]) {
    let mut random = SplitMix64::new(n_channels as u64);
    let (weight, bias) = (random.floats(n_channels), random.floats(n_channels));
    let layer = Norm { n_channels, weight: &weight, bias: &bias, rate: 1 };
    let x: Vec<f32> = random.floats(n_rows * len * n_channels).iter().map(|x| 3.0 * x + 1.0).collect();
    let found = run(bench, &layer, n_rows, &x);
    for (index, (&found, expected)) in found.iter().zip(norm(&layer, &x)).enumerate() {
        assert!((f64::from(found) - expected).abs() < 1e-5, "{n_channels}, index {index}: {found}, not {expected}");
    }
}

fn matches_reference(bench: &Bench) {
    for shape in [[64, 1, 4], [33, 3, 5], [1000, 2, 1], [128, 5, 8]] {
        check(bench, shape);
    }
}

fn one_element(bench: &Bench) {
    check(bench, [1, 1, 1]);
}

fn nothing(bench: &Bench) {
    check(bench, [8, 0, 4]);
    check(bench, [8, 2, 0]);
}

fn constant_rows(bench: &Bench) {
    let layer = Norm { n_channels: 3, weight: &[2.0; 3], bias: &[0.0, 1.0, -1.0], rate: 1 };
    assert_eq!(run(bench, &layer, 1, &[5.0; 3]), [0.0, 1.0, -1.0]);
}

fn model_shapes(bench: &Bench) {
    check(bench, [1536, 2, 8]);
}

fn refusals(bench: &Bench) {
    let layer = Norm { n_channels: 2, weight: &[1.0], bias: &[0.0; 2], rate: 1 };
    assert!(layer.plan(&bench.device, &bench.budget).is_err());
}
