//! `melisma dataset build`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use melisma::dataset::{self, Counters, Inputs, Options, Outcome, Request, StoreKind, Tail};
use melisma::mel::DType;
use melisma::runtime::duration;
use melisma::{Error, Result};
use serde_json::{Value, json};

use crate::args::BuildArgs;
use crate::mel;
use crate::session::Session;

/// Failures that the JSON lists; the file beside the dataset lists all.
const MAX_LISTED: usize = 1000;
/// Failures that are shown as text.
const MAX_SHOWN: usize = 10;

pub fn run(session: &Session, args: &BuildArgs) -> Result<()> {
    let _span = tracing::info_span!("dataset build").entered();
    let engine = session.engine()?;
    let segment = duration::parse(&args.segment)?;
    let hop = args.segment_hop.as_deref().map_or(Ok(segment), duration::parse)?;
    let tail = if args.drop_tail { Tail::Drop } else { Tail::Pad };
    let mut options = Options::new(mel::config(&args.mel)?, segment, hop, tail)?;
    match args.dtype.as_deref() {
        Some("f16") => options.mel.dtype = DType::F16,
        Some(_) => options.mel.dtype = DType::F32,
        None => {}
    }
    let inputs = Inputs::find(&args.inputs)?;
    let request = Request {
        inputs: &inputs,
        shard: shard(args.shard.as_deref())?,
        options,
        output: &args.output,
        store: StoreKind::choose(args.store.as_deref(), &args.output)?,
        existing: session.existing,
        stops_on_failure: args.on_error == "fail",
        device: &engine.device,
        budget: engine.memory.budget(),
        num_mega_buffers: args.num_mega_buffers,
        seg_microbatch_segments: args.seg_microbatch_segments,
    };
    let outcome = watched(session, &request)?;
    if !outcome.failures.is_empty() {
        session.refused_some();
        let list = format!("{}.failures.jsonl", args.output.display());
        session.say(&format!("{} files were refused; they are listed in {list}", outcome.failures.len()));
        for failure in outcome.failures.iter().take(MAX_SHOWN) {
            session.say(&format!("  {}: {}", failure.path, failure.message));
        }
    }
    session.print(&engine.device, || text(&outcome), json(&outcome))
}

fn shard(text: Option<&str>) -> Result<(usize, usize)> {
    let Some(text) = text else { return Ok((0, 1)) };
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parts {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i - 1, n)),
        _ => Err(Error::invalid(format!("`{text}` is no shard")).with_hint("write I/N with I from 1 to N, e.g. 1/8")),
    }
}

/// Builds with a progress bar, where somebody is there to see it.
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
            // A watcher that went away is no loss.
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

fn text(outcome: &Outcome) -> String {
    let seconds = outcome.wall_seconds.max(1e-9);
    let new_share = 1.0 - outcome.resumed_segments as f64 / outcome.segments.max(1) as f64;
    let [read, to_device, compute, from_device, write] = outcome.counters.seconds;
    format!(
        "{} files, {} segments ({} from before), {:.1} s of sound\n\
         {:.2} s, of which headers {:.2} s; {:.0}x realtime, {:.0} files/s\n\
         thread seconds: read {read:.2}, h2d {to_device:.2}, compute {compute:.2}, d2h {from_device:.2}, write {write:.2}\n",
        outcome.files_ok,
        outcome.segments,
        outcome.resumed_segments,
        outcome.audio_seconds,
        outcome.wall_seconds + outcome.scan_seconds,
        outcome.scan_seconds,
        outcome.audio_seconds * new_share / seconds,
        outcome.files_ok as f64 * new_share / seconds,
    )
}

fn json(outcome: &Outcome) -> Value {
    let seconds = outcome.wall_seconds.max(1e-9);
    let counters = &outcome.counters;
    let [read, h2d, compute, d2h, write] = counters.seconds;
    let listed = &outcome.failures[..outcome.failures.len().min(MAX_LISTED)];
    json!({
        "files_ok": outcome.files_ok,
        "files_failed": outcome.failures.len(),
        "files_repaired": outcome.files_repaired,
        "files_resampled": outcome.files_resampled,
        "segments": outcome.segments,
        "segments_resumed": outcome.resumed_segments,
        "audio_seconds": outcome.audio_seconds,
        "scan_seconds": outcome.scan_seconds,
        "wall_seconds": outcome.wall_seconds,
        "files_per_second": counters.files as f64 / seconds,
        "x_realtime": counters.rows as f64 / outcome.segments.max(1) as f64 * outcome.audio_seconds / seconds,
        "bytes_read": counters.bytes_read,
        "bytes_written": counters.bytes_written,
        "stages": { "read": read, "h2d": h2d, "compute": compute, "d2h": d2h, "write": write },
        "device_busy": Value::Null,
        "failures": listed,
    })
}
