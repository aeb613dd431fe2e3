//! On a GPU: one stream, many streams at full speed, and many live ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Rig, Row, clip, frame, frame_time, frames, of_times, population, quantiles};
use crate::Result;
use crate::snac::{Engine, Model, Noise, StreamId};

const N_STEPS: usize = 50;
const N_LIVE: usize = 2000;

pub(super) fn rows(rig: &Rig, model: &Arc<Model>, live_time: Duration) -> Result<Vec<Row>> {
    let mut rows = vec![clip(model, rig)?];
    rows.extend(frame::rows(model, rig)?);
    for n_streams in [32, 256] {
        rows.push(bulk(rig, model, n_streams)?);
    }
    rows.extend(live(rig, model, live_time)?);
    rows.extend(population::rows());
    Ok(rows)
}

fn open(rig: &Rig, model: &Model, n_streams: usize) -> Result<(Engine, Vec<StreamId>)> {
    let mut engine = rig.engine(model, n_streams)?;
    let streams = (0..n_streams).map(|index| engine.open(Noise::Seed(index as u64))).collect::<Result<_>>()?;
    Ok((engine, streams))
}

/// A frame of every stream, over and over, copies included.
fn bulk(rig: &Rig, model: &Model, n_streams: usize) -> Result<Row> {
    let one = frames(model.config(), 1);
    let (mut engine, streams) = open(rig, model, n_streams)?;
    let input: Vec<(StreamId, &[i32])> = streams.iter().map(|&stream| (stream, one.as_slice())).collect();
    let mut times = Vec::new();
    for step in 0..N_STEPS + 5 {
        let start = Instant::now();
        std::hint::black_box(engine.step(&input)?);
        if step >= 5 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let sound = n_streams as f64 * frame_time(model.config()).as_secs_f64();
    Ok(of_times(times).rate(&format!("snac/{n_streams} streams"), "x", sound))
}

/// Streams whose frames come evenly spread over the time that a frame plays; whoever waits is served together.
fn live(rig: &Rig, model: &Model, time: Duration) -> Result<Vec<Row>> {
    let one = frames(model.config(), 1);
    let (mut engine, streams) = open(rig, model, N_LIVE)?;
    let period = frame_time(model.config());
    let n_due = (N_LIVE as f64 * time.as_secs_f64() / period.as_secs_f64()) as u32;
    let begin = Instant::now();
    let due = |frame: u32| begin + period * (frame / N_LIVE as u32) + period * (frame % N_LIVE as u32) / N_LIVE as u32;
    let (mut served, mut latencies) = (0u32, Vec::new());
    while served < n_due {
        std::thread::sleep(due(served).saturating_duration_since(Instant::now()));
        let now = Instant::now();
        let waiting = (served..n_due).take(N_LIVE).take_while(|&frame| due(frame) <= now).count() as u32;
        let frames = served..served + waiting;
        let input: Vec<_> = frames.clone().map(|frame| (streams[frame as usize % N_LIVE], one.as_slice())).collect();
        engine.step(&input)?;
        latencies.extend(frames.map(|frame| due(frame).elapsed()));
        served += waiting;
    }
    let name = format!("snac/{N_LIVE} live streams");
    let n_met = latencies.iter().filter(|latency| **latency <= period).count();
    let [p50, p99] = quantiles(&name, &latencies);
    let met = Row {
        name: format!("{name}, deadlines met"),
        unit: "%".to_owned(),
        median: 100.0 * n_met as f64 / f64::from(n_due),
        spread: 0.0,
        n: n_due.into(),
        ..p50.clone()
    };
    Ok(vec![p50, p99, met])
}
