//! On a GPU: one stream, many streams at full speed in each precision, and many live ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::{EngineOptions, Frames, Model, Rounding, StreamId};

use super::live::{self, open};
use super::{Rig, Row, clip, codes, frame, frame_time, of_times, population};

const N_STEPS: usize = 50;
const N_LIVE: u32 = 2000;

pub(super) fn rows(rig: &Rig, model: &Arc<Model>, live_time: Duration) -> Result<Vec<Row>> {
    let mut rows = vec![clip(model, rig)?];
    rows.extend(frame::rows(model, rig)?);
    rows.push(bulk(rig, model, EngineOptions::new(32))?);
    for rounding in [Rounding::Off, Rounding::Tf32, Rounding::Bf16] {
        rows.push(bulk(rig, model, EngineOptions::new(256).with_rounding(rounding))?);
    }
    rows.extend(live::rows(rig, model, N_LIVE, live_time)?);
    rows.extend(population::rows());
    rows.extend(population::device_rows(rig)?);
    Ok(rows)
}

/// Repeats steps of one frame per stream, copies included; each step is submitted while the
/// previous one runs.
fn bulk(rig: &Rig, model: &Model, options: EngineOptions) -> Result<Row> {
    let one = codes(model.config(), 1)?;
    let (mut engine, streams) = open(rig, model, options)?;
    let input: Vec<(StreamId, Frames<'_>)> = streams.iter().map(|&stream| (stream, one.frames())).collect();
    let mut times = Vec::new();
    let mut ticket = engine.submit(&input)?;
    for step in 0..N_STEPS + 5 {
        let start = Instant::now();
        let next = engine.submit(&input)?;
        std::hint::black_box(engine.collect(ticket)?);
        ticket = next;
        if step >= 5 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let name = match options.rounding {
        Rounding::Off => format!("snac/{} streams", options.max_streams),
        Rounding::Tf32 => format!("snac/{} streams, tf32", options.max_streams),
        Rounding::Bf16 => format!("snac/{} streams, bf16", options.max_streams),
    };
    let sound = options.max_streams as f64 * frame_time(model.config()).as_secs_f64();
    Ok(of_times(times).rate(&name, "x", sound))
}
