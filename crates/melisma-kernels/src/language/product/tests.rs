use std::ops::Range;

use half::{bf16, f16};

use super::{Finish, Pass, Plan, plan, reference};
use crate::language::weight::{Weight, stored};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Cpu, Device, Space};

suite!(
    matches_reference,
    halves_are_widened,
    stacked_matrices,
    matrices_on_the_device,
    some_outputs,
    rows_alone,
    threads_give_the_same_bits,
    rounded_rows,
    finishes,
    special_floats,
    worked_example,
    nothing,
    refusals,
);

fn is_gpu(bench: &Bench) -> bool {
    matches!(bench.device, Device::Cuda(_))
}

/// Runs into `y`, which has room for all `outputs` of all rows.
fn run_into(bench: &Bench, plan: &Plan, (outputs, finish): (Range<usize>, Finish), x: &[f32], y: &[f32]) -> Vec<f32> {
    let (x, mut y) = (bench.tensor(x), bench.tensor(y));
    let pass = Pass { x: x.view().unwrap(), outputs, finish, y: y.view_mut().unwrap() };
    plan.run(&bench.queue, pass).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn run(bench: &Bench, weights: &[&Weight], x: &[f32]) -> Vec<f32> {
    let plan = plan(&bench.device, weights, &bench.budget).unwrap();
    let outputs = 0..plan.n_outputs();
    let y = vec![f32::NAN; x.len() / weights[0].shape()[1] * outputs.len()];
    run_into(bench, &plan, (outputs, Finish::Replace), x, &y)
}

/// Compares with the exact sums, and on the CPU every bit with the order of the contract.
fn check(bench: &Bench, [n_rows, n_outputs, k]: [usize; 3]) {
    let mut random = SplitMix64::new(k as u64);
    let (w, x) = (random.floats(n_outputs * k), random.floats(n_rows * k));
    let (weight, w) = stored(bench, &w, [n_outputs, k]);
    let expected = reference::product(&w, k, &x);
    let tolerance = if is_gpu(bench) { 1e-5 * (k as f64).sqrt() } else { 1e-6 * k as f64 };
    for (index, (found, expected)) in run(bench, &[&weight], &x).into_iter().zip(expected).enumerate() {
        let case = || format!("{n_rows} x {n_outputs} x {k}, index {index}");
        assert!((f64::from(found) - expected).abs() < tolerance, "{}: {found}, not {expected}", case());
        let (row, output) = (index / n_outputs, index % n_outputs);
        let in_order = reference::in_order(&w[output * k..][..k], &x[row * k..][..k]);
        assert!(is_gpu(bench) || found.to_bits() == in_order.to_bits(), "{}", case());
    }
}

fn matches_reference(bench: &Bench) {
    if is_gpu(bench) {
        for shape in [[1, 1, 8], [1, 64, 64], [3, 33, 40], [5, 7, 24], [9, 130, 256], [2, 4, 3072], [40, 70, 296]] {
            check(bench, shape);
        }
        return;
    }
    for shape in [[1, 1, 1], [1, 64, 64], [3, 33, 40], [5, 7, 17], [9, 130, 256], [2, 4, 3072], [1, 1000, 24]] {
        check(bench, shape);
    }
}

fn halves_are_widened(bench: &Bench) {
    if is_gpu(bench) {
        return;
    }
    let mut random = SplitMix64::new(1);
    for k in [8, 24, 64] {
        let (w, x) = (random.floats(6 * k), random.floats(3 * k));
        let halves: Vec<f16> = w.iter().map(|&w| f16::from_f32(w)).collect();
        let brains: Vec<bf16> = w.iter().map(|&w| bf16::from_f32(w)).collect();
        let wide: Vec<f32> = halves.iter().map(|w| w.to_f32()).collect();
        let of = |weight: Weight| run(bench, &[&weight], &x);
        let shape = [6, k];
        let found = of(Weight::of(&halves, shape, &bench.budget).unwrap());
        assert_eq!(found, of(Weight::of(&wide, shape, &bench.budget).unwrap()));
        let wide: Vec<f32> = brains.iter().map(|w| w.to_f32()).collect();
        let found = of(Weight::of(&brains, shape, &bench.budget).unwrap());
        assert_eq!(found, of(Weight::of(&wide, shape, &bench.budget).unwrap()));
    }
}

fn stacked_matrices(bench: &Bench) {
    let mut random = SplitMix64::new(2);
    let (w, x) = (random.floats(30 * 40), random.floats(3 * 40));
    let part = |from: usize, to: usize| stored(bench, &w[from * 40..to * 40], [to - from, 40]).0;
    let whole = run(bench, &[&part(0, 30)], &x);
    assert_eq!(run(bench, &[&part(0, 5), &part(5, 6), &part(6, 30)], &x), whole);
}

/// A matrix in the memory of the device is shared, alone, and copied from there into a stack.
fn matrices_on_the_device(bench: &Bench) {
    let mut random = SplitMix64::new(6);
    let (w, x) = (random.floats(10 * 16), random.floats(16));
    let (weight, _) = stored(bench, &w, [10, 16]);
    let shared = weight.on(&bench.device, &bench.budget).unwrap();
    let held = || bench.budget.usage(Space::Device).now;
    let before = held();
    let plan = plan(&bench.device, &[&shared], &bench.budget).unwrap();
    assert_eq!(held(), before);
    let expected = run(bench, &[&weight], &x);
    assert_eq!(run_into(bench, &plan, (0..10, Finish::Replace), &x, &[0.0; 10]), expected);
    assert_eq!(run(bench, &[&weight, &shared], &x), expected.repeat(2));
}

fn some_outputs(bench: &Bench) {
    let mut random = SplitMix64::new(3);
    let (w, x) = (random.floats(30 * 40), random.floats(2 * 40));
    let (weight, _) = stored(bench, &w, [30, 40]);
    let stacked = [&weight, &weight];
    let (plan, whole) = (plan(&bench.device, &stacked, &bench.budget).unwrap(), run(bench, &stacked, &x));
    for outputs in [0..60, 7..8, 29..31, 11..48, 60..60] {
        let y = vec![f32::NAN; 2 * outputs.len()];
        let y = run_into(bench, &plan, (outputs.clone(), Finish::Replace), &x, &y);
        let (first, second) = y.split_at(outputs.len());
        assert_eq!(first, &whole[..60][outputs.clone()]);
        assert_eq!(second, &whole[60..][outputs]);
    }
}

/// A row has the same bits alone and with neighbours, however many: a GPU has several forms.
fn rows_alone(bench: &Bench) {
    let mut random = SplitMix64::new(4);
    let (n_rows, n_outputs, k) = (100, 70, 328);
    let (w, x) = (random.floats(n_outputs * k), random.floats(n_rows * k));
    let (weight, _) = stored(bench, &w, [n_outputs, k]);
    let whole = run(bench, &[&weight], &x);
    for n in [1, 2, 3, 8, 9, 16, 17, 32, 65] {
        for (some, whole) in x.chunks(n * k).zip(whole.chunks(n * n_outputs)).take(if n == 1 { 12 } else { 2 }) {
            assert_eq!(run(bench, &[&weight], some), whole, "{n} rows");
        }
    }
}

fn threads_give_the_same_bits(bench: &Bench) {
    let Device::Cpu(Cpu { isa, .. }) = bench.device else { return };
    let mut random = SplitMix64::new(5);
    let (w, x) = (random.floats(700 * 64), random.floats(3 * 64));
    let of = |threads| {
        let bench = Bench::new(Device::Cpu(Cpu { isa, threads }));
        run(&bench, &[&stored(&bench, &w, [700, 64]).0], &x)
    };
    assert_eq!(of(1), of(3));
}

/// Where matrices may be rounded, a GPU rounds x to bf16, and then the bits are those of that x in two parts.
fn rounded_rows(bench: &Bench) {
    let mut random = SplitMix64::new(7);
    let (n_rows, n_outputs, k) = (140, 70, 328);
    let (weight, _) = stored(bench, &random.floats(n_outputs * k), [n_outputs, k]);
    let x = random.floats(n_rows * k);
    let rounded: Vec<f32> = x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
    let expected = if is_gpu(bench) { &rounded } else { &x };
    for n in [1, 8, 9, 16, 17, 64, 65, 140] {
        let found = run(bench, &[&weight.clone().rounded()], &x[..n * k]);
        assert!(found == run(bench, &[&weight], &expected[..n * k]), "{n} rows");
    }
}

fn finishes(bench: &Bench) {
    let (weight, _) = stored(bench, &[1.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1, 8]);
    let plan = plan(&bench.device, &[&weight], &bench.budget).unwrap();
    let x = [3.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    for (finish, expected) in [(Finish::Replace, 43.0), (Finish::Add, 143.0), (Finish::Scale(0.5), 21.5)] {
        assert_eq!(run_into(bench, &plan, (0..1, finish), &x, &[100.0]), [expected]);
    }
}

fn special_floats(bench: &Bench) {
    let of = |first: f32, second: f32| [first, second, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let (weight, _) = stored(bench, &[of(1.0, 0.0), of(0.0, f32::NAN)].concat(), [2, 8]);
    let y = run(bench, &[&weight], &of(2.0, 3.0));
    assert!(y[0] == 2.0 && y[1].is_nan());
    assert!(!run(bench, &[&weight], &of(f32::INFINITY, 1.0))[0].is_finite());
    assert!(run(bench, &[&weight], &of(f32::NAN, 1.0))[0].is_nan());
}

fn worked_example(bench: &Bench) {
    if !is_gpu(bench) {
        let weight = Weight::of(&[1.0f32, 10.0, 2.0, 0.0], [2, 2], &bench.budget).unwrap();
        assert_eq!(run(bench, &[&weight], &[3.0, 4.0]), [43.0, 6.0]);
    }
}

fn nothing(bench: &Bench) {
    let (weight, _) = stored(bench, &[1.0; 16], [2, 8]);
    assert!(run(bench, &[&weight], &[]).is_empty());
}

fn refusals(bench: &Bench) {
    let of = |shape: [usize; 2]| stored(bench, &vec![1.0; shape[0] * shape[1]], shape).0;
    let plan = |weights: &[&Weight]| plan(&bench.device, weights, &bench.budget);
    assert!(plan(&[]).is_err());
    assert!(plan(&[&of([2, 0])]).is_err());
    assert!(plan(&[&of([2, 8]), &of([2, 16])]).is_err());
    if is_gpu(bench) {
        assert!(plan(&[&of([2, 12])]).unwrap_err().to_string().contains("sums of 12 numbers"));
        let exact = Weight::of(&[1.0f32; 16], [2, 8], &bench.budget).unwrap();
        assert!(plan(&[&exact]).unwrap_err().to_string().contains("weights of type f32 on a GPU"));
    }
    let plan = plan(&[&of([2, 8])]).unwrap();
    for (x_len, outputs, y_len) in [(8, 0..3, 3), (9, 0..2, 2), (8, 0..2, 1), (8, 0..2, 4)] {
        let (x, mut y) = (bench.tensor(&vec![0.0f32; x_len]), bench.tensor(&vec![0.0f32; y_len]));
        let pass = Pass { x: x.view().unwrap(), outputs, finish: Finish::Replace, y: y.view_mut().unwrap() };
        assert!(plan.run(&bench.queue, pass).is_err());
    }
}
