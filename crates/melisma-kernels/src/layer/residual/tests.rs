use super::Residual;
use super::reference::residual;
use crate::Device;
use crate::layer::step::{Rounding, Timeline};
use crate::layer::streams::{self, Shape};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(
    matches_reference,
    one_element,
    model_shapes,
    chunks_give_the_bits_of_the_whole,
    every_form_gives_the_same_bits,
    refusals
);

fn check(bench: &Bench, [n_channels, dilation, rate]: [usize; 3], lens: &[usize]) {
    let n = n_channels;
    let mut random = SplitMix64::new((n * dilation) as u64);
    let alphas: Vec<f32> = random.floats(2 * n).iter().map(|x| 1.5 + x).collect();
    let (wide, biases) = (random.floats(n * 7), random.floats(2 * n));
    let scale = 1.0 / (n as f32).sqrt();
    let mix: Vec<f32> = random.floats(n * n).iter().map(|x| x * scale).collect();
    let from = Timeline { rate, lag: 2 };
    let to = Timeline { rate, lag: 2 + 3 * dilation };
    let layer = Residual {
        n_channels,
        dilation,
        alpha: &alphas[..n],
        wide: &wide,
        wide_bias: &biases[..n],
        mix_alpha: &alphas[n..],
        mix: &mix,
        mix_bias: &biases[n..],
        timeline: to,
        rounding: Rounding::Off,
    };
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let shape = Shape { n_in: n, n_out: n, from, to, state_len: plan.state_len() };
    streams::check(
        bench,
        ("residual", &plan),
        shape,
        (lens, 3),
        (|x: &[f32]| residual(&layer, x), 4e-6 * (n as f64).max(8.0)),
    );
}

fn matches_reference(bench: &Bench) {
    check(bench, [16, 1, 1], &[5, 12]);
    check(bench, [33, 3, 2], &[7, 1]);
    check(bench, [20, 9, 1], &[30, 4]);
}

fn one_element(bench: &Bench) {
    check(bench, [1, 1, 1], &[1, 0, 2]);
}

fn model_shapes(bench: &Bench) {
    for dilation in [1, 3, 9] {
        check(bench, [64, dilation, 16], &[3, 2]);
        if matches!(bench.device, Device::Cpu(_)) {
            check(bench, [512, dilation, 8], &[4]);
            check(bench, [256, dilation, 64], &[4]);
        }
    }
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    check(bench, [48, 9, 4], &[13, 8, 21]);
}

/// Enough columns for the many-column forms on a large GPU; the small chunks use the few-column form.
fn every_form_gives_the_same_bits(bench: &Bench) {
    if std::env::var_os("MELISMA_SHIM").is_none() {
        let rate = if matches!(bench.device, Device::Cpu(_)) { 16 } else { 64 };
        for dilation in [1, 3, 9] {
            check(bench, [64, dilation, rate], &[64, 60, 30]);
        }
        check(bench, [100, 3, rate], &[64, 60, 30]);
    }
}

fn refusals(bench: &Bench) {
    let timeline = Timeline { rate: 1, lag: 3 };
    let layer = Residual {
        n_channels: 1,
        dilation: 0,
        alpha: &[1.0],
        wide: &[0.0; 7],
        wide_bias: &[0.0],
        mix_alpha: &[1.0],
        mix: &[0.0],
        mix_bias: &[0.0],
        timeline,
        rounding: Rounding::Off,
    };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("dilation"));
    let layer = Residual { dilation: 1, wide: &[0.0; 6], ..layer };
    assert!(layer.plan(&bench.device, &bench.budget).unwrap_err().to_string().contains("wide"));
}
