//! The low-pass against its formula: 1 / (s² + k s + 1), s = j tan(π f) / tan(π c).

use std::f64::consts::PI;

use melisma::Result;

use super::signal::{db, fit_sine};
use super::voice::{Player, increment, still, tone};
use super::{Limit, RATE, Sheet};

const CUTOFFS: [f64; 4] = [200.0, 1200.0, 5000.0, 12_000.0];
const DAMPINGS: [f64; 3] = [0.3, 1.2, 2.0];
const N_POINTS: u32 = 24;
/// Below this gain, noise hides the response.
const FLOOR: f64 = -80.0;

pub(super) fn measure(sheet: &mut Sheet) -> Result<()> {
    let mut worst = 0f64;
    for cutoff in CUTOFFS {
        for damping in DAMPINGS {
            for point in 0..=N_POINTS {
                let hz = 30.0 * (20_000f64 / 30.0).powf(f64::from(point) / f64::from(N_POINTS));
                let expected = formula(hz, cutoff, damping);
                if expected < FLOOR {
                    continue;
                }
                let found = gain(hz, cutoff, damping)?;
                worst = worst.max((found - expected).abs());
                if (cutoff, damping) == (1200.0, 0.3) {
                    sheet.filter[0].push((hz, found));
                    sheet.filter[1].push((hz, expected));
                }
            }
        }
    }
    sheet.add("filter, largest distance from its formula", worst, "dB", Limit::AtMost(0.1));
    Ok(())
}

fn formula(hz: f64, cutoff: f64, damping: f64) -> f64 {
    let rate = f64::from(RATE);
    let w = (PI * hz / rate).tan() / (PI * cutoff / rate).tan();
    -db((1.0 - w * w).hypot(damping * w))
}

fn gain(hz: f64, cutoff: f64, damping: f64) -> Result<f64> {
    let turns = hz / f64::from(RATE);
    let octaves = (cutoff / f64::from(RATE)).log2();
    let mut player = Player::new(&tone(turns, [0.5, 0.0], still(octaves as f32, damping as f32)))?;
    // Lets the filter settle.
    player.play(RATE as usize / 2);
    let turns = increment(turns) as f64 * 2f64.powi(-64);
    let (size, _) = fit_sine(&player.play(RATE as usize / 5), turns);
    Ok(db(size * 2f64.sqrt() / 0.5))
}
