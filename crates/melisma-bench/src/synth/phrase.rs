//! The thirty-second phrase on one core.

use std::time::Instant;

use melisma::Result;
use melisma::synth::effect::{Reverb, ReverbSettings};
use melisma::synth::{Bus, BusConfig, EngineConfig, Parameter, PhraseRenderer, Sound, Stream};

use super::{Row, beside, long_phrase, of_times, quantiles};

/// Samples that effects process at a time.
const CHUNK: usize = 256;

/// The share of the reverb in the mix.
const ROOM: f32 = 0.3;

pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in ["dry", "with reverb", "with delay, reverb and limiter"] {
        let (first, steady) = times(name)?;
        let name = format!("synth/phrase 30 s {name}");
        rows.extend(quantiles(&name, &steady, &[("p50", 0.5), ("p95", 0.95)]));
        let median = rows[rows.len() - 2].median;
        let first = of_times(first);
        let mut row = Row::single(format!("{name}, first after warm-up"), "ms", 1e3 * first.median);
        (row.spread, row.n) = (first.spread, first.n);
        rows.push(beside(row, "steady", median));
    }
    rows.push(reuse()?);
    rows.push(first_block()?);
    Ok(rows)
}

/// Measures the first phrases of new renderers after the warm-up, and the following ones.
fn times(effects: &str) -> Result<(Vec<f64>, Vec<f64>)> {
    const RENDERERS: usize = 5;
    const STEADY: usize = 8;
    let phrase = long_phrase();
    let config = EngineConfig::default();
    let (mut first, mut steady) = (Vec::new(), Vec::new());
    for _ in 0..RENDERERS {
        let mut renderer = PhraseRenderer::new(config, phrase.seconds)?;
        let mut room = Reverb::new(ReverbSettings::default(), config.sample_rate)?;
        let mut bus = Bus::new(BusConfig::new(config.sample_rate))?;
        bus.set(Parameter::Reverb, ROOM);
        bus.set(Parameter::Delay, ROOM);
        for run in 0..2 + STEADY {
            renderer.engine().reset();
            let start = Instant::now();
            let Sound { left, right } = renderer.render_phrase(&phrase)?;
            match effects {
                "dry" => {}
                "with reverb" => add_room(&mut room, left, right),
                _ => bus.process(left, right),
            }
            let time = start.elapsed().as_secs_f64();
            match run {
                0 => {}
                1 => first.push(time),
                _ => steady.push(time),
            }
        }
    }
    Ok((first, steady))
}

/// Measures one renderer for all phrases, beside one whose engine and buffers are made anew for
/// each.
fn reuse() -> Result<Row> {
    const RUNS: usize = 20;
    let phrase = long_phrase();
    let config = EngineConfig::default();
    let mut kept = PhraseRenderer::new(config, phrase.seconds)?;
    kept.render_phrase(&phrase)?;
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..RUNS {
        let start = Instant::now();
        kept.engine().reset();
        kept.render_phrase(&phrase)?;
        times[0].push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        PhraseRenderer::new(config, phrase.seconds)?.render_phrase(&phrase)?;
        times[1].push(start.elapsed().as_secs_f64());
    }
    let [reused, anew] = times.map(of_times);
    let mut row = Row::single("synth/phrase 30 s dry, buffers reused", "ms", 1e3 * reused.median);
    (row.spread, row.n) = (reused.spread, reused.n);
    Ok(beside(row, "made anew for each phrase", 1e3 * anew.median))
}

fn add_room(room: &mut Reverb, left: &mut [f32], right: &mut [f32]) {
    let mut wet = [[0.0f32; CHUNK]; 2];
    for (left, right) in left.chunks_mut(CHUNK).zip(right.chunks_mut(CHUNK)) {
        let [wet_left, wet_right] = &mut wet;
        wet_left[..left.len()].copy_from_slice(left);
        wet_right[..right.len()].copy_from_slice(right);
        room.process(&mut wet_left[..left.len()], &mut wet_right[..right.len()]);
        for (dry, wet) in [(left, wet_left), (right, wet_right)] {
            dry.iter_mut().zip(wet).for_each(|(dry, wet)| *dry += ROOM * (*wet - *dry));
        }
    }
}

/// Measures from a cold start to the first 10 ms of the phrase's first notes.
fn first_block() -> Result<Row> {
    let phrase = long_phrase();
    let mut times = Vec::new();
    for _ in 0..50 {
        let (mut stream, _remote) = Stream::dry(EngineConfig::default())?;
        let start = Instant::now();
        let mut n_notes = 0;
        let engine = stream.engine();
        phrase.place(0, engine.config().sample_rate, |note| {
            n_notes += 1;
            note.events(n_notes).into_iter().try_for_each(|event| engine.push(event))
        })?;
        stream.next_block();
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(quantiles("synth/first block", &times, &[("p50", 0.5)]).remove(0))
}
