use half::bf16;

use super::{Norm, reference};
use crate::language::weight::Weight;
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, one_element, nothing, rows_alone, special_floats, worked_example, refusals);

fn run(bench: &Bench, weight: &Weight, epsilon: f32, x: &[f32]) -> Vec<f32> {
    let plan = Norm { weight, epsilon }.plan(&bench.device, &bench.budget).unwrap();
    let (x, mut y) = (bench.tensor(x), bench.tensor(&vec![f32::NAN; x.len()]));
    plan.run(&bench.queue, x.view().unwrap(), y.view_mut().unwrap()).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn check(bench: &Bench, n_rows: usize, n_channels: usize) {
    let mut random = SplitMix64::new(n_channels as u64);
    let (weight, x) = (random.floats(n_channels), random.floats(n_rows * n_channels));
    let stored = Weight::of(&weight, [1, n_channels], &bench.budget).unwrap();
    let expected = reference::norm(&weight, 1e-5, &x);
    for (index, (found, expected)) in run(bench, &stored, 1e-5, &x).into_iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error < 1e-6 * (1.0 + expected.abs()), "{n_channels}, index {index}: {found}, not {expected}");
    }
}

fn matches_reference(bench: &Bench) {
    for (n_rows, n_channels) in [(1, 64), (3, 33), (2, 1000), (5, 3072), (7, 15)] {
        check(bench, n_rows, n_channels);
    }
}

fn one_element(bench: &Bench) {
    check(bench, 1, 1);
}

fn nothing(bench: &Bench) {
    check(bench, 0, 8);
}

/// A row has the same bits with and without neighbours.
fn rows_alone(bench: &Bench) {
    let x = SplitMix64::new(3).floats(5 * 40);
    let weight: Vec<bf16> = x[..40].iter().map(|&x| bf16::from_f32(x)).collect();
    let weight = Weight::of(&weight, [1, 40], &bench.budget).unwrap();
    let whole = run(bench, &weight, 1e-6, &x);
    for (x, whole) in x.chunks(40).zip(whole.chunks(40)) {
        assert_eq!(run(bench, &weight, 1e-6, x), whole);
    }
}

fn special_floats(bench: &Bench) {
    let weight = Weight::of(&[1.0f32; 3], [1, 3], &bench.budget).unwrap();
    let y = run(bench, &weight, 1e-5, &[0.0, 0.0, 0.0, 1.0, f32::NAN, 2.0, 1e-30, -1e-30, 0.0]);
    assert_eq!(y[..3], [0.0; 3]);
    assert!(y[3..6].iter().all(|y| y.is_nan()) && y[6..].iter().all(|y| y.is_finite()));
}

fn worked_example(bench: &Bench) {
    let weight = Weight::of(&[1.0f32, 2.0], [1, 2], &bench.budget).unwrap();
    assert_eq!(run(bench, &weight, 0.0, &[3.0, 3.0]), [1.0, 2.0]);
}

fn refusals(bench: &Bench) {
    let matrix = Weight::of(&[1.0f32; 4], [2, 2], &bench.budget).unwrap();
    assert!(Norm { weight: &matrix, epsilon: 0.0 }.plan(&bench.device, &bench.budget).is_err());
    let weight = Weight::of(&[1.0f32; 2], [1, 2], &bench.budget).unwrap();
    let plan = Norm { weight: &weight, epsilon: 0.0 }.plan(&bench.device, &bench.budget).unwrap();
    let (x, mut y) = (bench.tensor(&[1.0f32; 3]), bench.tensor(&[0.0f32; 3]));
    assert!(plan.run(&bench.queue, x.view().unwrap(), y.view_mut().unwrap()).is_err());
    assert!(plan.run(&bench.queue, x.view().unwrap().first(2).unwrap(), y.view_mut().unwrap()).is_err());
}
