use super::reference::pointwise;
use super::{Mode, Pointwise};
use crate::Device;
use crate::layer::step::{Activations, Rounding, Row, Rows, Step, Timeline};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(
    plain,
    add,
    noise,
    zero_deviates_give_the_input,
    model_shapes,
    every_form_gives_the_same_bits,
    factors_are_rounded_where_allowed,
    empty,
    masks,
    refusals
);

struct Case {
    n_in: usize,
    n_out: usize,
    mode: Mode,
    n_rows: usize,
    len: usize,
}

/// Runs one step over a dirty output; the bits of a row must not depend on the other rows.
fn check(bench: &Bench, case: Case) {
    let Case { n_in, n_out, mode, n_rows, len } = case;
    let mut random = SplitMix64::new((n_in * 7 + n_out) as u64);
    let (weight, bias) = (random.floats(n_in * n_out), random.floats(n_out));
    let timeline = Timeline { rate: 1, lag: 0 };
    let bias = (mode == Mode::Plain).then_some(bias.as_slice());
    let layer = Pointwise { n_in, n_out, weight: &weight, bias, mode, timeline, rounding: Rounding::Off };
    let x = random.floats(n_rows * len * n_in);
    let with = match mode {
        Mode::Plain => Vec::new(),
        Mode::Add => random.floats(n_rows * len * n_out),
        Mode::Noise => random.floats(n_rows * len),
    };
    let expected = pointwise(&layer, &with, &x);
    let found = run(bench, &layer, &vec![Row::default(); n_rows], [&with, &x]);
    for (index, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= 2e-6 * n_in as f64, "{mode:?} {n_in} {n_out}, index {index}: {found}, not {expected}");
    }
    let per_row = |values: &[f32], row: usize| {
        let n = values.len() / n_rows;
        values[row * n..(row + 1) * n].to_vec()
    };
    for row in [0, n_rows - 1] {
        let alone = run(bench, &layer, &[Row::default()], [&per_row(&with, row), &per_row(&x, row)]);
        assert_eq!(alone, per_row(&found, row), "{mode:?} {n_in} {n_out}: row {row} alone");
    }
}

fn run(bench: &Bench, layer: &Pointwise<'_>, list: &[Row], [with, x]: [&[f32]; 2]) -> Vec<f32> {
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let mut rows = Rows::new(&bench.device, &bench.budget, list.len(), 1).unwrap();
    rows.set(&bench.queue, list).unwrap();
    let n_latents = x.len() / layer.n_in / list.len().max(1);
    let (x, with) = (bench.tensor::<f32>(x), bench.tensor::<f32>(with));
    let mut y = bench.tensor::<f32>(&vec![f32::NAN; list.len() * n_latents * layer.n_out]);
    let activations = Activations { x: x.view().unwrap(), y: y.view_mut().unwrap() };
    let step = Step { rows: &rows, n_latents };
    plan.run(&bench.queue, step, with.view().unwrap(), activations).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn each(bench: &Bench, mode: Mode) {
    for (n_in, n_out, n_rows, len) in [(1, 1, 1, 1), (33, 33, 3, 5), (64, 64, 2, 30), (300, 300, 2, 7), (16, 16, 1, 65)]
    {
        check(bench, Case { n_in, n_out, mode, n_rows, len });
    }
}

fn plain(bench: &Bench) {
    each(bench, Mode::Plain);
    check(bench, Case { n_in: 40, n_out: 100, mode: Mode::Plain, n_rows: 2, len: 9 });
}

fn add(bench: &Bench) {
    each(bench, Mode::Add);
}

fn noise(bench: &Bench) {
    each(bench, Mode::Noise);
}

fn zero_deviates_give_the_input(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 0 };
    let weight = SplitMix64::new(1).floats(16 * 16);
    let layer = Pointwise {
        n_in: 16,
        n_out: 16,
        weight: &weight,
        bias: None,
        mode: Mode::Noise,
        timeline,
        rounding: Rounding::Off,
    };
    let mut x = SplitMix64::new(2).floats(3 * 16);
    x[20] = -0.0;
    for with in [[0.5, 0.0, -0.25], [0.0; 3]] {
        let y = run(bench, &layer, &[Row::default()], [&with, &x]);
        assert_eq!(
            y[16..32].iter().map(|y| y.to_bits()).collect::<Vec<_>>(),
            x[16..32].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        );
    }
}

/// The shapes of the 24 kHz decoder; fewer of them where every thread is a fiber.
fn model_shapes(bench: &Bench) {
    let shapes = [(768, 1024, Mode::Plain, 4), (512, 512, Mode::Noise, 32), (64, 64, Mode::Noise, 2048)];
    let n_shapes = if matches!(bench.device, Device::Cpu(_)) { shapes.len() } else { 1 };
    for (n_in, n_out, mode, len) in shapes.into_iter().take(n_shapes) {
        check(bench, Case { n_in, n_out, mode, n_rows: 1, len });
    }
}

/// Enough columns for the many-column forms on a large GPU; a single row of them uses the
/// few-column form.
fn every_form_gives_the_same_bits(bench: &Bench) {
    if std::env::var_os("MELISMA_SHIM").is_none() {
        let n_rows = if matches!(bench.device, Device::Cpu(_)) { 30 } else { 300 };
        check(bench, Case { n_in: 70, n_out: 60, mode: Mode::Plain, n_rows, len: 32 });
        check(bench, Case { n_in: 70, n_out: 160, mode: Mode::Add, n_rows, len: 32 });
        check(bench, Case { n_in: 300, n_out: 160, mode: Mode::Plain, n_rows, len: 32 });
    }
}

fn factors_are_rounded_where_allowed(bench: &Bench) {
    let (n_in, n_out, len) = (40, 36, 9);
    let mut random = SplitMix64::new(5);
    let (weight, x) = (random.floats(n_in * n_out), random.floats(n_in * len));
    let timeline = Timeline { rate: 1, lag: 0 };
    let layer =
        Pointwise { n_in, n_out, weight: &weight, bias: None, mode: Mode::Plain, timeline, rounding: Rounding::Off };
    let exact = run(bench, &layer, &[Row::default()], [&[], &x]);
    for (rounding, unit) in [(Rounding::Tf32, 2f32.powi(-11)), (Rounding::Bf16, 2f32.powi(-8))] {
        let found = run(bench, &Pointwise { rounding, ..layer }, &[Row::default()], [&[], &x]);
        if matches!(bench.device, Device::Cpu(_)) {
            assert_eq!(found, exact);
            continue;
        }
        let worst = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Two roundings in each product of factors below 1.
        assert!(worst > unit / 8.0 && worst < 2.1 * unit * n_in as f32, "{rounding:?}: {worst}");
        let short = |x: &f32| half::bf16::from_f32(*x).to_f32();
        let (weight, x): (Vec<f32>, Vec<f32>) = (weight.iter().map(short).collect(), x.iter().map(short).collect());
        let layer = Pointwise { weight: &weight, ..layer };
        let found = run(bench, &Pointwise { rounding, ..layer }, &[Row::default()], [&[], &x]);
        let exact = run(bench, &layer, &[Row::default()], [&[], &x]);
        let worst = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 4e-6, "{rounding:?}, nothing to round: {worst}");
    }
}

const PLAIN: Pointwise<'_> = Pointwise {
    n_in: 2,
    n_out: 3,
    weight: &[1.0; 6],
    bias: None,
    mode: Mode::Plain,
    timeline: Timeline { rate: 1, lag: 0 },
    rounding: Rounding::Off,
};

fn empty(bench: &Bench) {
    assert!(run(bench, &PLAIN, &[], [&[], &[]]).is_empty());
    assert!(run(bench, &PLAIN, &[Row::default()], [&[], &[]]).is_empty());
}

fn masks(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 2 };
    let layer = Pointwise { n_in: 1, n_out: 1, weight: &[1.0], bias: Some(&[10.0]), timeline, ..PLAIN };
    let rows = [Row { start: 0, end: 1, ..Row::default() }, Row { start: 4, end: 5, ..Row::default() }];
    let y = run(bench, &layer, &rows, [&[], &[1.0; 8]]);
    assert_eq!(y, [0.0, 0.0, 11.0, 0.0, 11.0, 11.0, 11.0, 0.0]);
}

fn refusals(bench: &Bench) {
    let layer = Pointwise { mode: Mode::Noise, ..PLAIN };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("2 to 3 channels"));
    let layer = Pointwise { mode: Mode::Add, bias: Some(&[0.0; 3]), ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("bias"));
    let layer = Pointwise { weight: &[0.0; 5], bias: None, ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("6 elements"));
}
