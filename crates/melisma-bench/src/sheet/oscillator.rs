//! The noise of the sine, at the start and after a day, and the aliases of the saw.

use melisma::Result;

use super::signal::{LINE, db, fit_sine, spectrum, window};
use super::voice::{Player, STEADY, increment, sine, still, tone};
use super::{Limit, RATE, Sheet};

const SINES: [f64; 6] = [27.5, 110.0, 440.0, 997.0, 4186.0, 12_345.6];
const KEYS: std::ops::RangeInclusive<u8> = 21..=108;
const N: usize = 1 << 16;

pub(super) fn measure(sheet: &mut Sheet) -> Result<()> {
    let hour = 3600 * u64::from(RATE);
    for (name, at) in
        [("sine, signal to noise, first hour", hour / 2), ("sine, signal to noise, 24th hour", 47 * hour / 2)]
    {
        let mut worst = f64::INFINITY;
        for hz in SINES {
            worst = worst.min(signal_to_noise(hz, at)?);
        }
        sheet.add(name, worst, "dB", Limit::AtLeast(120.0));
    }
    let mut worst = f64::NEG_INFINITY;
    let window = window(N);
    for key in KEYS {
        let alias = alias(key, &window)?;
        worst = worst.max(alias);
        sheet.alias.push((f64::from(key), alias));
    }
    sheet.add("saw, largest alias, keys 21 to 108", worst, "dBc", Limit::AtMost(-80.0));
    Ok(())
}

fn signal_to_noise(hz: f64, at: u64) -> Result<f64> {
    let turns = hz / f64::from(RATE);
    let mut player = Player::new(&sine(turns, STEADY))?;
    player.play(64);
    player.leap(at);
    // The frequency of the quantised phase increment.
    let turns = increment(turns) as f64 * 2f64.powi(-64);
    let (signal, noise) = fit_sine(&player.play(RATE as usize), turns);
    Ok(db(signal / noise))
}

/// Returns the largest line that is not a harmonic, relative to the fundamental.
fn alias(key: u8, window: &[f64]) -> Result<f64> {
    let hz = 440.0 * ((f64::from(key) - 69.0) / 12.0).exp2();
    let turns = hz / f64::from(RATE);
    let mut player = Player::new(&tone(turns, [0.0, 1.0], still(0.0, 1.4)))?;
    player.play(4096);
    let spectrum = spectrum(&player.play(N), window);
    let spacing = turns * N as f64;
    let distance = |bin: usize| {
        let place = bin as f64 / spacing;
        (place - place.round()).abs() * spacing
    };
    let near = |bin: usize| (bin as f64) < LINE || distance(bin) < LINE;
    let fundamental =
        spectrum[(spacing - LINE) as usize..=(spacing + LINE) as usize].iter().fold(0f64, |a, &b| a.max(b));
    let rest = (0..spectrum.len()).filter(|&bin| !near(bin)).map(|bin| spectrum[bin]).fold(0f64, f64::max);
    Ok(db(rest / fundamental))
}
