//! The reverb's decay: an impulse, an octave around 1 kHz, Schroeder's integral, T30 of ISO 3382.

use std::f64::consts::{SQRT_2, TAU};

use melisma::Result;
use melisma::synth::effect::{Reverb, ReverbSettings};

use super::{Limit, RATE, Sheet};

const TIMES: [f64; 4] = [0.6, 1.5, 2.8, 5.0];

pub(super) fn measure(sheet: &mut Sheet) -> Result<()> {
    let mut worst = 0f64;
    for rt60_s in TIMES {
        let settings = ReverbSettings::default().with_rt60_s(rt60_s);
        let decay = decay(settings)?;
        let at = |level: f64| decay.iter().position(|&db| db < level).unwrap_or(decay.len()) as f64;
        let found = 2.0 * (at(-35.0) - at(-5.0)) / f64::from(RATE);
        worst = worst.max(100.0 * (found / rt60_s - 1.0).abs());
        if rt60_s == ReverbSettings::default().rt60_s {
            let points = decay.iter().enumerate().step_by(960);
            sheet.decay = points.map(|(i, &db)| (i as f64 / f64::from(RATE), db)).collect();
        }
    }
    sheet.add("reverb, largest error of RT60", worst, "%", Limit::AtMost(5.0));
    let mut reverb = Reverb::new(ReverbSettings::default(), RATE)?;
    let mut block = [[0f32; 480]; 2];
    (block[0][0], block[1][0]) = (1.0, 1.0);
    let mut last = 0;
    let n_blocks = reverb.tail_samples().div_ceil(480) + 100;
    for index in 0..n_blocks {
        let [left, right] = &mut block;
        reverb.process(left, right);
        if block.iter().flatten().any(|&x| x != 0.0) {
            last = index + 1;
        }
        block = [[0.0; 480]; 2];
    }
    let silent = (n_blocks - last) as f64 * 480.0 / f64::from(RATE);
    sheet.add("reverb, exact silence after its tail", silent, "s", Limit::AtLeast(1.0));
    Ok(())
}

/// Returns the remaining energy at each sample, in decibels.
fn decay(settings: ReverbSettings) -> Result<Vec<f64>> {
    let n = (1.5 * settings.rt60_s * f64::from(RATE)) as usize;
    let (mut left, mut right) = (vec![0f32; n], vec![0f32; n]);
    (left[0], right[0]) = (1.0, 1.0);
    Reverb::new(settings, RATE)?.process(&mut left, &mut right);
    let mut x: Vec<f64> = left.iter().map(|&x| f64::from(x)).collect();
    let (s, c) = (TAU * 1000.0 / f64::from(RATE)).sin_cos();
    let alpha = s / (2.0 * SQRT_2);
    for _ in 0..2 {
        let (mut x1, mut x2, mut y1, mut y2) = (0.0, 0.0, 0.0, 0.0);
        for sample in &mut x {
            let y = (alpha * (*sample - x2) + 2.0 * c * y1 - (1.0 - alpha) * y2) / (1.0 + alpha);
            (x2, x1, y2, y1) = (x1, *sample, y1, y);
            *sample = y;
        }
    }
    let mut sum = 0.0;
    for sample in x.iter_mut().rev() {
        sum += *sample * *sample;
        *sample = sum;
    }
    let all = x.first().copied().unwrap_or(1.0);
    Ok(x.iter().map(|energy| 10.0 * (energy / all).max(1e-20).log10()).collect())
}
