//! Loudness and true peak of every preset, and the cost of a capture.

use std::time::Instant;

use melisma::Result;
use melisma::audio::Meter;
use melisma::output;
use melisma::synth::{
    Action, Bus, BusConfig, EngineConfig, Instrument, Length, Parameter, Performance, STYLES, Setup, Stream, balance,
    compose,
};

use super::super::record::quantile;
use super::{Limit, RATE, Sheet};

const SECONDS: u64 = 20;
/// The presets' targets, in LUFS.
const TARGETS: [f64; 4] = [-16.0, -23.0, -20.0, -11.0];
/// Blocks of 10 ms, alternating with and without a capture.
const TURNS: usize = 30;
const BLOCKS: usize = 200;

pub(super) fn measure(sheet: &mut Sheet) -> Result<()> {
    let (mut error, mut peak) = (0f64, f64::NEG_INFINITY);
    for (style, target) in STYLES.iter().zip(TARGETS) {
        let score = compose(style, 1, SECONDS as f64)?;
        let bus = BusConfig::new(RATE);
        let length = Length::Samples(SECONDS * u64::from(RATE));
        let setup = Setup::new(bus).with_length(length).with_max_voices(256);
        let level = balance(setup, target, |setup| listen(Performance::new(&score, setup)?))?.gain;
        let meter = listen(Performance::new(&score, setup.with_bus(bus.with_level(level)))?)?;
        error = error.max(meter.integrated().map_or(f64::INFINITY, |found| (found - target).abs()));
        peak = peak.max(meter.peak_dbtp().unwrap_or(f64::NEG_INFINITY));
    }
    sheet.add("loudness, largest error of -11 to -23 LUFS", error, "LU", Limit::AtMost(0.5));
    sheet.add("true peak, largest of all presets", peak, "dBTP", Limit::AtMost(-1.0));
    sheet.add("capture, p99 of a 10 ms block, on by off", capture()?, "x", Limit::AtMost(1.05));
    Ok(())
}

fn listen(mut performance: Performance) -> Result<Meter> {
    let mut meter = Meter::new(RATE);
    while let Some(block) = performance.next_block(None)? {
        meter.push(block.left, block.right);
    }
    Ok(meter)
}

/// Returns the 99th percentile block time of a stream with a capture, divided by that without; the
/// median of all turns.
fn capture() -> Result<f64> {
    let folder = std::env::temp_dir().join(format!("melisma-sheet-{}", std::process::id()));
    let stream = || -> Result<(Stream, Bus)> {
        let (stream, remote) = Stream::dry(EngineConfig::default().with_sample_rate(RATE))?;
        for note in 0..32u8 {
            let (instrument, key) = (Instrument::Pad, 36 + note);
            remote.send(Action::Start { note: note.into(), instrument, channel: 0, key, velocity: 0.4, pan: 0.0 })?;
        }
        let mut bus = Bus::new(BusConfig::new(RATE))?;
        bus.set(Parameter::Reverb, 0.3);
        Ok((stream, bus))
    };
    let (mut off, mut on) = (stream()?, stream()?);
    on.0.capture_to(&folder)?;
    let turn = |(stream, bus): &mut (Stream, Bus)| {
        let block = |_| {
            let start = Instant::now();
            let played = stream.next_block();
            bus.process(played.left, played.right);
            start.elapsed().as_secs_f64()
        };
        quantile(&(0..BLOCKS).map(block).collect::<Vec<f64>>(), 0.99)
    };
    turn(&mut off);
    turn(&mut on);
    let ratios: Vec<f64> = (0..TURNS)
        .map(|_| {
            let off = turn(&mut off);
            turn(&mut on) / off
        })
        .collect();
    on.0.finish_capture()?;
    std::fs::remove_dir_all(&folder).map_err(|error| output::failed(&folder, error))?;
    Ok(quantile(&ratios, 0.5))
}
