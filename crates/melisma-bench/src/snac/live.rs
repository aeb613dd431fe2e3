//! Live streams: each delivers frames at playing speed, and each frame must be decoded before the
//! next arrives.

use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::{Engine, EngineOptions, Model, Noise, StreamId};

use super::{Rig, Row, codes, frame_time, quantiles};

/// Returns an engine with all streams started.
pub(super) fn open(rig: &Rig, model: &Model, options: EngineOptions) -> Result<(Engine, Vec<StreamId>)> {
    let mut engine = Engine::new(model, rig.0.queue(), rig.0.budget(), options)?;
    let streams =
        (0..options.max_streams).map(|index| engine.open(Noise::Seed(index as u64))).collect::<Result<_>>()?;
    Ok((engine, streams))
}

/// Measures streams whose frames arrive evenly spread over the time of one frame; all waiting frames
/// are decoded in one step.
pub(super) fn rows(rig: &Rig, model: &Model, n_streams: u32, time: Duration) -> Result<Vec<Row>> {
    let one = codes(model.config(), 1)?;
    let (mut engine, streams) = open(rig, model, EngineOptions::new(n_streams as usize))?;
    let period = frame_time(model.config());
    let n_due = (f64::from(n_streams) * time.as_secs_f64() / period.as_secs_f64()) as u32;
    let begin = Instant::now();
    let due = |frame: u32| begin + period * (frame / n_streams) + period * (frame % n_streams) / n_streams;
    let (mut served, mut latencies) = (0, Vec::new());
    // Too late to catch up: the remaining frames count as missed.
    while served < n_due && begin.elapsed() < time + period {
        std::thread::sleep(due(served).saturating_duration_since(Instant::now()));
        let now = Instant::now();
        let waiting = (served..n_due).take(streams.len()).take_while(|&frame| due(frame) <= now).count() as u32;
        let frames = served..served + waiting;
        let input: Vec<_> = frames.clone().map(|frame| (streams[(frame % n_streams) as usize], one.frames())).collect();
        engine.step(&input)?;
        latencies.extend(frames.map(|frame| due(frame).elapsed()));
        served += waiting;
    }
    let name = format!("snac/{n_streams} live streams{}", rig.suffix());
    let n_met = latencies.iter().filter(|latency| **latency <= period).count();
    let mut rows = quantiles(&name, &latencies);
    let met = Row::single(format!("{name}, deadlines met"), "%", 100.0 * n_met as f64 / f64::from(n_due));
    rows.push(Row { n: n_due.into(), ..met });
    Ok(rows)
}
