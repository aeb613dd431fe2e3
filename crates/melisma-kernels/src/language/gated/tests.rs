use super::{plan, reference};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, one_element, nothing, special_floats, refusals);

fn run(bench: &Bench, n_inner: usize, x: &[f32]) -> Vec<f32> {
    let (x, mut y) = (bench.tensor(x), bench.tensor(&vec![f32::NAN; x.len() / 2]));
    let plan = plan(&bench.device, n_inner).unwrap();
    plan.run(&bench.queue, x.view().unwrap(), y.view_mut().unwrap()).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn check(bench: &Bench, n_rows: usize, n_inner: usize) {
    let x: Vec<f32> = SplitMix64::new(n_inner as u64).floats(2 * n_rows * n_inner).iter().map(|x| 20.0 * x).collect();
    let expected = reference::gated(n_inner, &x);
    for (index, (found, expected)) in run(bench, n_inner, &x).into_iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error < 1e-6 * (1e-3 + expected.abs()), "{n_inner}, index {index}: {found}, not {expected}");
    }
}

fn matches_reference(bench: &Bench) {
    for (n_rows, n_inner) in [(1, 64), (3, 33), (2, 8192), (5, 7)] {
        check(bench, n_rows, n_inner);
    }
}

fn one_element(bench: &Bench) {
    check(bench, 1, 1);
    assert_eq!(run(bench, 1, &[0.0, 5.0]), [0.0]);
}

fn nothing(bench: &Bench) {
    check(bench, 0, 8);
}

fn special_floats(bench: &Bench) {
    let y = run(bench, 4, &[200.0, -200.0, f32::NAN, 1.0, 2.0, 2.0, 2.0, f32::NAN]);
    assert_eq!(y[0], 400.0);
    assert!(y[1].abs() < 1e-30 && y[2].is_nan() && y[3].is_nan());
}

fn refusals(bench: &Bench) {
    assert!(plan(&bench.device, 0).is_err());
    let plan = plan(&bench.device, 2).unwrap();
    let (x, mut y) = (bench.tensor(&[0.0f32; 6]), bench.tensor(&[0.0f32; 4]));
    assert!(plan.run(&bench.queue, x.view().unwrap(), y.view_mut().unwrap()).is_err());
    assert!(plan.run(&bench.queue, x.view().unwrap(), y.view_mut().unwrap().first(3).unwrap()).is_err());
}
