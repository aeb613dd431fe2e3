//! Signal analysis: sine fits, spectra, filters.

use std::f64::consts::{PI, TAU};

/// Returns the amplitude of the sine of `turns` per sample in `x`, and the residual, both as root
/// mean squares. Least squares finds its phase.
pub(super) fn fit_sine(x: &[f32], turns: f64) -> (f64, f64) {
    let (mut cc, mut ss, mut cs, mut xc, mut xs) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let wave = |i: usize| (TAU * (turns * i as f64).fract()).sin_cos();
    for (i, &x) in x.iter().enumerate() {
        let (s, c) = wave(i);
        cc += c * c;
        ss += s * s;
        cs += c * s;
        xc += f64::from(x) * c;
        xs += f64::from(x) * s;
    }
    let determinant = cc * ss - cs * cs;
    let (a, b) = ((xc * ss - xs * cs) / determinant, (xs * cc - xc * cs) / determinant);
    let rest: f64 = x
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            let (s, c) = wave(i);
            (f64::from(x) - a * c - b * s).powi(2)
        })
        .sum();
    (((a * a + b * b) / 2.0).sqrt(), (rest / x.len() as f64).sqrt())
}

/// Returns a window of `n` samples with side lobes below -180 dB.
pub(super) fn window(n: usize) -> Vec<f64> {
    let top = bessel(SHAPE);
    let at = |i: usize| {
        let place = 2.0 * (i as f64 + 0.5) / n as f64 - 1.0;
        bessel(SHAPE * (1.0 - place * place).sqrt()) / top
    };
    (0..n).map(at).collect()
}

/// Returns the magnitude spectrum of `x`, whose length is a power of two, under a [`window`] of that length.
pub(super) fn spectrum(x: &[f32], window: &[f64]) -> Vec<f64> {
    let n = x.len();
    let mut re: Vec<f64> = x.iter().zip(window).map(|(&x, weight)| f64::from(x) * weight).collect();
    let mut im = vec![0.0; n];
    fft(&mut re, &mut im);
    (0..n / 2).map(|k| re[k].hypot(im[k])).collect()
}

/// The shape of the Kaiser window.
const SHAPE: f64 = 20.0;
/// Half the width of a spectral line under the window, in bins.
pub(super) const LINE: f64 = 8.0;

fn bessel(x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..80 {
        term *= (x / 2.0 / f64::from(k)).powi(2);
        sum += term;
    }
    sum
}

/// Transforms in place with a radix-2 FFT.
fn fft(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            re.swap(i, j);
            im.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        for k in 0..half {
            let (s, c) = (-PI * k as f64 / half as f64).sin_cos();
            for at in (k..n).step_by(2 * half) {
                let (a, b) = (re[at + half] * c - im[at + half] * s, re[at + half] * s + im[at + half] * c);
                (re[at + half], im[at + half]) = (re[at] - a, im[at] - b);
                (re[at], im[at]) = (re[at] + a, im[at] + b);
            }
        }
        half *= 2;
    }
}

/// Returns the part of `x` above `turns` per sample: an eighth-order Butterworth high-pass.
pub(super) fn high_pass(x: &[f32], turns: f64) -> Vec<f64> {
    let mut x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    for stage in 0..4 {
        let q = 1.0 / (2.0 * (PI * (2.0 * f64::from(stage) + 1.0) / 16.0).cos());
        let (s, c) = (TAU * turns).sin_cos();
        let alpha = s / (2.0 * q);
        let (b0, b1, a0) = ((1.0 + c) / 2.0, -(1.0 + c), 1.0 + alpha);
        let (mut x1, mut x2, mut y1, mut y2) = (0.0, 0.0, 0.0, 0.0);
        for sample in &mut x {
            let y = (b0 * (*sample + x2) + b1 * x1 + 2.0 * c * y1 - (1.0 - alpha) * y2) / a0;
            (x2, x1, y2, y1) = (x1, *sample, y1, y);
            *sample = y;
        }
    }
    x
}

pub(super) fn db(ratio: f64) -> f64 {
    20.0 * ratio.max(1e-12).log10()
}
