//! On a GPU: voices on the device, mixes delivered to the host, and the phrase.

use std::time::{Duration, Instant};

use melisma::Result;
use melisma::synth::patch::{Pitch, Touch};
use melisma::synth::{BulkConfig, BulkRenderer, Cost, Instrument};
use melisma::trace::Busy;
use melisma_kernels::signal::voice::{Bulk, Control, Controls, Note};
use melisma_kernels::{Budget, DType, Device, Graph, Queue, Tensor};

use super::{Plan, RATE, Row, long_phrase, measure, pad, patch, quantiles};

const STILL: Controls<'static> = Controls::Still(Control { brightness: 0.0, motion: 1.0 });

/// Returns an additive voice in a mix of eight.
fn pluck(index: usize) -> Note {
    let pitch = Pitch { key: 36 + (index * 7 % 49) as u8, semitones: 0.0, sample_rate: RATE };
    let touch = Touch { velocity: 0.5, pan: 0.0, seed: index as u32 };
    Note { voice: patch::voice(Instrument::Pluck, pitch, touch), mix: (index / 8) as u32, onset: 0, release: None }
}

pub(super) fn rows(device: &Device) -> Result<Vec<Row>> {
    let budget = Budget::unlimited();
    let queue = device.queue(&budget)?;
    let additive: Vec<Note> = (0..65_536).map(pluck).collect();
    let pads: Vec<Note> =
        (0..262_144).map(|i| Note { voice: pad(i), mix: (i / 32) as u32, onset: 0, release: None }).collect();
    let mut rows = vec![
        on_device(
            &queue,
            &budget,
            "synth/additive voices",
            &additive,
            Bulk { n_mixes: 8192, len: 48_000, position: 0 },
        )?,
        on_device(&queue, &budget, "synth/pads", &pads, Bulk { n_mixes: 8192, len: 24_000, position: 0 })?,
    ];
    rows.extend(delivered(device, &budget)?);
    rows.extend(phrase(device, &budget)?);
    rows.push(short_batch(&queue, &budget)?);
    let cost = Cost::measure(device, &budget)?;
    rows.push(Row::single("synth/cost of a batch", "ms", 1e3 * cost.fixed));
    Ok(rows)
}

/// Measures seconds of voices per second, on the device only.
fn on_device(queue: &Queue, budget: &Budget, name: &str, notes: &[Note], bulk: Bulk) -> Result<Row> {
    let mut plan = bulk.plan(&queue.device(), budget)?;
    let mut out = Tensor::new(&queue.device(), budget, DType::F32, &[bulk.out_len()])?;
    plan.load(queue, notes, STILL)?;
    let mut outcome = Ok(());
    let limits = Plan { warm_up: 2, least: 5, time: Duration::from_secs(1), most: 50 };
    let measured = measure(limits, || {
        let run = || plan.run(queue, out.view_mut()?).and_then(|()| queue.synchronize());
        outcome = { run }();
    });
    outcome?;
    Ok(measured.rate(name, "voice-s/s", notes.len() as f64 * bulk.len as f64 / f64::from(RATE)))
}

/// Measures stereo mixes delivered to the host with two batches in flight: of eight additive voices, and of
/// 64 pads.
fn delivered(device: &Device, budget: &Budget) -> Result<Vec<Row>> {
    const N_MIXES: usize = 1024;
    let additive: Vec<Note> = (0..8 * N_MIXES).map(pluck).collect();
    let pads = |i: usize| Note { voice: pad(i), mix: (i / 64) as u32, onset: 0, release: None };
    let pads: Vec<Note> = (0..64 * N_MIXES).map(pads).collect();
    let mut rows = Vec::new();
    for (name, notes) in [("8 additive voices", additive), ("64 pads", pads)] {
        let config = BulkConfig::new(N_MIXES, 1.0, RATE);
        let mut renderer = BulkRenderer::new(device, budget, config)?;
        let name = format!("synth/mixes of {name}, delivered");
        let (times, _) = deliver(&mut renderer, &notes)?;
        let row = super::of_times(times[4..].to_vec()).rate(&name, "x", N_MIXES as f64);
        let alone = deliver_singly(&mut renderer, &notes)?;
        let alone = super::of_times(alone[4..].to_vec()).median;
        rows.push(super::beside(row, "one batch in flight", N_MIXES as f64 / alone));
        renderer.start_timing()?;
        renderer.device_spans()?;
        let (times, begin) = deliver(&mut renderer, &notes)?;
        let spans = renderer.device_spans()?;
        for (label, counts) in [("device busy", &["voice", "copy"][..]), ("kernels busy", &["voice"])] {
            let mut busy = Busy::default();
            for span in spans.iter().filter(|span| counts.contains(&span.name)) {
                let start = span.start.saturating_duration_since(begin).as_nanos() as u64;
                busy.add(start, start + span.duration.as_nanos() as u64);
            }
            let share = busy.covered() as f64 / 1e9 / times.iter().sum::<f64>();
            rows.push(Row::single(format!("{name}, {label}"), "% busy", 100.0 * share.min(1.0)));
        }
    }
    Ok(rows)
}

/// Batches for one figure.
const N_BATCHES: usize = 40;

/// Returns the duration of each of many batches in seconds, where a batch starts when the last has
/// arrived.
fn deliver_singly(renderer: &mut BulkRenderer, notes: &[Note]) -> Result<Vec<f64>> {
    let mut once = || {
        let start = Instant::now();
        let batch = renderer.start_notes(notes, STILL)?;
        renderer.wait(batch)?;
        Ok(start.elapsed().as_secs_f64())
    };
    (0..N_BATCHES).map(|_| once()).collect()
}

/// Returns the duration of each of many batches in seconds, two in flight, and their start.
fn deliver(renderer: &mut BulkRenderer, notes: &[Note]) -> Result<(Vec<f64>, Instant)> {
    let mut waiting = renderer.start_notes(notes, STILL)?;
    let mut times = Vec::new();
    let begin = Instant::now();
    let mut last = begin;
    for _ in 0..N_BATCHES {
        let next = renderer.start_notes(notes, STILL)?;
        renderer.wait(std::mem::replace(&mut waiting, next))?;
        times.push(last.elapsed().as_secs_f64());
        last = Instant::now();
    }
    renderer.wait(waiting)?;
    Ok((times, begin))
}

/// Measures a quarter of a second of one chord from a recorded graph, beside plain launches: the
/// saving of a graph.
fn short_batch(queue: &Queue, budget: &Budget) -> Result<Row> {
    let bulk = Bulk { n_mixes: 1, len: RATE as usize / 4, position: 0 };
    let notes: Vec<Note> = (0..4).map(|i| Note { voice: pad(i), mix: 0, onset: 0, release: None }).collect();
    let mut plan = bulk.plan(&queue.device(), budget)?;
    plan.load(queue, &notes, STILL)?;
    let out = Tensor::new(&queue.device(), budget, DType::F32, &[bulk.out_len()])?;
    let work = |queue: &Queue, (plan, out): &mut (melisma_kernels::signal::voice::Plan, Tensor)| {
        plan.run(queue, out.view_mut()?)
    };
    let mut graph = Graph::capture(queue, (plan, out), work)?;
    let limits = Plan { warm_up: 10, least: 50, time: Duration::from_millis(200), most: 2000 };
    let mut outcome = Ok(());
    let launches = measure(limits, || outcome = work(queue, graph.state_mut()).and_then(|()| queue.synchronize()));
    let replays = measure(limits, || outcome = graph.launch(queue).and_then(|()| queue.synchronize()));
    outcome?;
    let mut row = replays.seconds("synth/short batch, from a graph");
    row.peers.push(super::Peer { name: "launches".to_owned(), median: launches.median });
    Ok(row)
}

fn phrase(device: &Device, budget: &Budget) -> Result<Vec<Row>> {
    let phrases = [long_phrase()];
    let mut renderer = BulkRenderer::new(device, budget, BulkConfig::new(1, 30.0, RATE))?;
    let mut times = Vec::new();
    for _ in 0..105 {
        let begin = Instant::now();
        renderer.render(&phrases)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(quantiles("synth/phrase 30 s delivered", &times[5..], &[("p50", 0.5), ("p99", 0.99)]))
}
