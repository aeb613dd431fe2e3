//! `melisma dataset build`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use melisma::dataset::{self, Counters, Inputs, Options, Outcome, Request, StoreKind, Tail, Techniques};
use melisma::mel::OutputPrecision;
use melisma::output;
use melisma::text::{count, duration};
use melisma::{Error, Result};

use super::report;
use crate::args::BuildArgs;
use crate::mel;
use crate::session::Session;

/// Rows in a rehearsal.
const REHEARSED: usize = 20_000;
/// Failures listed in the text output.
const MAX_SHOWN: usize = 10;

pub fn run(session: &Session, args: &BuildArgs) -> Result<()> {
    let _span = tracing::info_span!("dataset build").entered();
    let engine = session.engine()?;
    let segment = duration::parse(&args.segment)?;
    let hop = args.segment_hop.as_deref().map_or(Ok(segment), duration::parse)?;
    let tail = if args.drop_tail { Tail::Drop } else { Tail::Pad };
    let mut options = Options::new(mel::config(&args.mel)?, segment, hop, tail)?;
    match args.dtype.as_deref() {
        Some("f16") => options.mel.dtype = OutputPrecision::F16,
        Some(_) => options.mel.dtype = OutputPrecision::F32,
        None => {}
    }
    let techniques = techniques(args)?;
    if args.test_gpu_pipeline {
        let (device, budget) = (&engine.device, engine.memory.budget());
        let rehearsal = dataset::rehearse(device, budget, &options, &techniques, REHEARSED)?;
        return session.print(device, || report::rehearsal_text(&rehearsal), report::rehearsal_json(&rehearsal));
    }
    let place = args.output.as_deref().ok_or_else(|| Error::invalid("a build needs an output"))?;
    let inputs = Inputs::find(&args.inputs)?;
    if let Some(trace) = &session.config.trace.value {
        output::refuse_among(trace, inputs.files.iter().map(|input| &*input.path))?;
    }
    inputs.skipped.lines().iter().for_each(|line| session.say(&format!("note: skipped {line}")));
    let request = Request {
        inputs: &inputs,
        shard: shard(args.shard.as_deref())?,
        options,
        output: place,
        store: StoreKind::choose(args.store.as_deref(), place)?,
        existing: session.existing,
        stops_on_failure: args.on_error == "fail",
        device: &engine.device,
        threads: session.config.threads.value.count(),
        budget: engine.memory.budget(),
        techniques,
    };
    let outcome = watched(session, &request)?;
    if !outcome.failures.is_empty() {
        session.refused_some();
        let list = format!("{}.failures.jsonl", place.display());
        let n = outcome.failures.len() as u64;
        let verb = if n == 1 { "was refused; it is" } else { "were refused; they are" };
        session.say(&format!("{} {verb} listed in {list}", count(n, "file")));
        for failure in outcome.failures.iter().take(MAX_SHOWN) {
            session.say(&format!("  {}: {}", failure.path, failure.message));
        }
    }
    session.print(&engine.device, || report::text(&outcome), report::json(&outcome, &inputs.skipped))
}

fn techniques(args: &BuildArgs) -> Result<Techniques> {
    let mut techniques = Techniques::default();
    args.technique.iter().try_for_each(|text| techniques.set(text))?;
    techniques.buffers_in_flight = args.buffers_in_flight.map_or(techniques.buffers_in_flight, usize::from);
    techniques.segments_per_buffer = args.segments_per_buffer.map(|n| n as usize).or(techniques.segments_per_buffer);
    techniques.autosize_gpu_batch = args.autosize_gpu_batch.unwrap_or(techniques.autosize_gpu_batch);
    Ok(techniques)
}

fn shard(text: Option<&str>) -> Result<(usize, usize)> {
    let Some(text) = text else { return Ok((0, 1)) };
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parts {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i - 1, n)),
        Some((i, n)) => Err(Error::invalid(format!("--shard {text}: shard {i} of {n} does not exist"))
            .with_hint("write I/N with I from 1 to N, e.g. 1/8")),
        None => Err(Error::invalid(format!("--shard {text}: this is not I/N"))
            .with_hint("write I/N with I from 1 to N, e.g. 1/8")),
    }
}

/// Builds, with a progress bar if somebody is watching.
fn watched(session: &Session, request: &Request<'_>) -> Result<Outcome> {
    let counters = Counters::default();
    if !session.has_audience() {
        return dataset::build(request, &counters, |_, _| {});
    }
    let bar = ProgressBar::new_spinner();
    bar.set_message("reading headers");
    bar.enable_steady_tick(Duration::from_millis(100));
    let (planned, plan) = mpsc::channel();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (bar, counters, is_done) = (&bar, &counters, &is_done);
        scope.spawn(move || {
            let Ok((rows, resumed, samples_per_second, refused)) = plan.recv() else { return };
            draw(bar, rows, resumed);
            let start = std::time::Instant::now();
            while !is_done.load(Relaxed) {
                let now = counters.now();
                let seconds = start.elapsed().as_secs_f64().max(1e-3);
                let speed = now.samples as f64 / f64::from(samples_per_second) / seconds;
                bar.set_position(resumed as u64 + now.rows);
                let failed = refused as u64 + now.failed;
                bar.set_message(format!(
                    "{:.0} files/s  {speed:.0}x realtime  {failed} failed",
                    now.files as f64 / seconds
                ));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let rate = request.options.mel.sample_rate;
        let outcome = dataset::build(request, counters, move |plan, resumed| {
            // The progress thread may have ended already.
            let _ = planned.send((plan.rows.len(), resumed, rate, plan.refused.len()));
        });
        is_done.store(true, Relaxed);
        bar.finish_and_clear();
        outcome
    })
}

fn draw(bar: &ProgressBar, rows: usize, resumed: usize) {
    bar.set_length(rows as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} rows  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar.reset_eta();
    bar.set_position(resumed as u64);
}
