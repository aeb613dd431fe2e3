//! When envelopes reach their targets, and whether they jump.
//!
//! At a quarter of the sample rate a sine is 0, 1, 0, -1: every other sample shows the level itself.

use melisma::Result;
use melisma_kernels::signal::voice::{Envelope, Segment};

use super::voice::{Player, sine};
use super::{Limit, Points, Sheet};

const SHAPE: Envelope = Envelope {
    attack: Segment { samples: 2401, curve: 2.0 },
    decay: Segment { samples: 4800, curve: 4.0 },
    sustain: 0.5,
    release: Segment { samples: 3600, curve: 6.0 },
};

pub(super) fn measure(sheet: &mut Sheet) -> Result<()> {
    let held = 9601;
    let whole = levels(held, 16_000)?;
    let top = whole.iter().position(|&(_, level)| level > 0.999_999).map_or(f64::NAN, |at| whole[at].0);
    let settled = whole.iter().find(|&&(at, level)| at > top && (level - 0.5).abs() < 1e-6).map_or(f64::NAN, |p| p.0);
    let silent = whole.iter().rev().find(|&&(_, level)| level > 0.0).map_or(f64::NAN, |point| point.0 + 2.0);
    let arrivals = [(top, 2401.0), (settled, 7201.0), (silent, (held + 3600) as f64)];
    // Levels are visible at odd samples; for some samples, the tail of a segment is within 2^-24 of
    // its end.
    let late = arrivals.iter().map(|(found, exact)| (found - exact).abs()).fold(0.0, f64::max);
    sheet.add("envelope, largest error of a segment's end", late, "samples", Limit::AtMost(2.0));
    let mut worst = steepness(&whole);
    for held in [2, 11, 480, 1201, 2400, 2402, 5001] {
        let short = levels(held, 8000)?;
        worst = worst.max(steepness(&short));
        if held == 1201 {
            sheet.envelope[1] = short;
        }
    }
    sheet.envelope[0] = whole;
    sheet.add("envelope, steepest step by the steepest of its segments", worst, "x", Limit::AtMost(1.01));
    Ok(())
}

/// Returns levels at odd samples of a note that is released at sample `held`.
fn levels(held: usize, n: usize) -> Result<Points> {
    let mut player = Player::new(&sine(0.25, SHAPE))?;
    let mut samples = player.play(held);
    player.release();
    samples.extend(player.play(n - held));
    Ok((0..n / 2).map(|i| ((2 * i + 1) as f64, f64::from(samples[2 * i + 1].abs()))).collect())
}

/// Returns the largest step between neighbours, relative to the steepest step of a segment of this
/// shape.
fn steepness(levels: &Points) -> f64 {
    let slope = |segment: Segment, height: f64| {
        let curve = f64::from(segment.curve);
        height * curve * std::f64::consts::LN_2 / (1.0 - (-curve).exp2()) / f64::from(segment.samples)
    };
    let steepest = [slope(SHAPE.attack, 1.0), slope(SHAPE.decay, 0.5), slope(SHAPE.release, 1.0)];
    let steepest = steepest.into_iter().fold(0.0, f64::max);
    let largest = levels.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()).fold(0.0, f64::max);
    largest / (2.0 * steepest)
}
