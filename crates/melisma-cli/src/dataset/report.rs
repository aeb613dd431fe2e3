//! The report of a build, as text and as JSON.

use melisma::dataset::{Names, Outcome, Rehearsal, Skipped, Snapshot, Stage};
use melisma::text::table::{Align, Table};
use melisma::text::{count, realtime, size};
use serde_json::{Map, Value, json};

/// Failures listed in the JSON; the file beside the dataset lists all of them.
const MAX_LISTED: usize = 1000;

pub fn text(outcome: &Outcome) -> String {
    let new_share = 1.0 - outcome.resumed_segments as f64 / outcome.segments.max(1) as f64;
    let seconds = outcome.wall_seconds.max(1e-9);
    format!(
        "{}, {} ({} from before), {:.1} s of audio\n\
         {:.2} s, headers {:.2} s of it; {}, {:.0} files/s\n\n{}",
        count(outcome.files_ok as u64, "file"),
        count(outcome.segments as u64, "segment"),
        outcome.resumed_segments,
        outcome.audio_seconds,
        outcome.wall_seconds + outcome.scan_seconds,
        outcome.scan_seconds,
        realtime(outcome.audio_seconds * new_share, seconds),
        outcome.files_ok as f64 * new_share / seconds,
        stages(&outcome.counters, outcome.wall_seconds, outcome.threads),
    )
}

pub fn rehearsal_text(rehearsal: &Rehearsal) -> String {
    let [rows, slots] = rehearsal.slots;
    let seconds = rehearsal.wall_seconds.max(1e-9);
    format!(
        "{}, {:.0} s of audio, on {} with {} of {} each\n\
         {:.3} s; {}, {:.0} segments/s\n\n{}",
        count(rehearsal.segments as u64, "generated segment"),
        rehearsal.audio_seconds,
        count(rehearsal.threads as u64, "thread"),
        count(slots as u64, "buffer"),
        count(rows as u64, "segment"),
        rehearsal.wall_seconds,
        realtime(rehearsal.audio_seconds, seconds),
        rehearsal.segments as f64 / seconds,
        stages(&rehearsal.counters, rehearsal.wall_seconds, rehearsal.threads),
    )
}

/// Returns the seconds and bytes per second of each stage, and the stage that limited the run.
fn stages(counters: &Snapshot, wall_seconds: f64, threads: usize) -> String {
    let is_gpu = counters.device_seconds > 0.0;
    let on_device = |stage: Stage| is_gpu && matches!(stage, Stage::ToDevice | Stage::Compute | Stage::FromDevice);
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        ("stage", Align::Left),
        right("seconds"),
        right("of the time"),
        ("of", Align::Left),
        right("rate"),
    ]);
    for (stage, seconds) in Stage::ALL.into_iter().zip(counters.seconds) {
        if seconds == 0.0 {
            continue;
        }
        let (whole, of) = match on_device(stage) {
            true => (wall_seconds, "the device".to_owned()),
            false => (wall_seconds * threads as f64, count(threads as u64, "thread")),
        };
        let bytes = match stage {
            Stage::Read => counters.bytes_read,
            Stage::ToDevice => counters.bytes_sent,
            Stage::FromDevice | Stage::Write => counters.bytes_written,
            Stage::Compute | Stage::Wait => 0,
        };
        let rate = (bytes as f64 / seconds) as u64;
        table.push([
            stage.name().to_owned(),
            format!("{seconds:.3}"),
            format!("{:.1} %", 100.0 * seconds / whole.max(1e-9)),
            of,
            if bytes > 0 { format!("{}/s", size::show(rate)) } else { String::new() },
        ]);
    }
    if counters.seconds.iter().all(|&seconds| seconds == 0.0) {
        return "nothing was left to do\n".to_owned();
    }
    let mut text = table.text();
    if is_gpu {
        let kernels = kernels_busy(counters, wall_seconds);
        let kernels = kernels.map(|share| format!(", its kernels {:.1} %", 100.0 * share)).unwrap_or_default();
        text += &format!("the device was busy {:.1} % of the time{kernels}\n", 100.0 * busy(counters, wall_seconds));
    }
    if counters.recovered > 0 {
        let verb = if counters.recovered == 1 { "was" } else { "were" };
        let launches = count(counters.recovered, "launch");
        text += &format!("{launches} found too little memory and {verb} repeated in smaller parts\n");
    }
    if let Some((name, share)) = counters.usage(wall_seconds, threads).first().filter(|(_, share)| *share > 0.0) {
        text += &format!("limited by {name}, busy {:.1} % of the time\n", 100.0 * share);
    }
    text
}

fn busy(counters: &Snapshot, wall_seconds: f64) -> f64 {
    counters.device_seconds / wall_seconds.max(1e-9)
}

/// Returns the share of the time in which a GPU's kernels ran, where copies are timed apart from them.
fn kernels_busy(counters: &Snapshot, wall_seconds: f64) -> Option<f64> {
    let seconds = |stage: Stage| counters.seconds[stage as usize];
    let is_apart = counters.device_seconds > 0.0 && seconds(Stage::ToDevice) + seconds(Stage::FromDevice) > 0.0;
    is_apart.then(|| seconds(Stage::Compute) / wall_seconds.max(1e-9))
}

/// Returns the keys that builds and rehearsals share.
fn shared(counters: &Snapshot, wall_seconds: f64, threads: usize) -> Map<String, Value> {
    let stages: Map<String, Value> = Stage::ALL
        .into_iter()
        .zip(counters.seconds)
        .map(|(stage, seconds)| (stage.name().into(), seconds.into()))
        .collect();
    let device_busy = (counters.device_seconds > 0.0).then(|| busy(counters, wall_seconds));
    let limited_by = counters.usage(wall_seconds, threads).first().map(|(name, _)| *name);
    let all = json!({
        "wall_seconds": wall_seconds,
        "threads": threads,
        "bytes_read": counters.bytes_read,
        "bytes_written": counters.bytes_written,
        "stages": stages,
        "device_busy": device_busy,
        "kernels_busy": kernels_busy(counters, wall_seconds),
        "limited_by": limited_by,
        "launches_recovered": counters.recovered,
    });
    if let Value::Object(all) = all { all } else { Map::new() }
}

fn names(names: &Names) -> Value {
    json!({ "count": names.n, "first": names.first })
}

pub fn json(outcome: &Outcome, skipped: &Skipped) -> Value {
    let counters = &outcome.counters;
    let seconds = outcome.wall_seconds.max(1e-9);
    let listed = &outcome.failures[..outcome.failures.len().min(MAX_LISTED)];
    let mut all = shared(counters, outcome.wall_seconds, outcome.threads);
    let own = json!({
        "files_ok": outcome.files_ok,
        "files_failed": outcome.files_failed(),
        "files_left_out": outcome.left_out,
        "files_newer": outcome.newer,
        "files_peak_limited": outcome.limited,
        "files_repaired": outcome.files_repaired,
        "files_resampled": outcome.files_resampled,
        "segments": outcome.segments,
        "segments_resumed": outcome.resumed_segments,
        "audio_seconds": outcome.audio_seconds,
        "scan_seconds": outcome.scan_seconds,
        "files_per_second": counters.files as f64 / seconds,
        "steady_segments_per_second": outcome.steady_rows_per_second,
        "x_realtime": counters.rows as f64 / outcome.segments.max(1) as f64 * outcome.audio_seconds / seconds,
        "failures": listed,
        "failures_by_code": outcome.failures_by_code(),
        "skipped": {
            "formats": skipped.formats.iter().map(|(suffix, some)| (suffix.clone(), names(some))).collect::<Map<_, _>>(),
            "unreadable": names(&skipped.unreadable),
            "repeated": names(&skipped.repeated),
        },
    });
    if let Value::Object(own) = own {
        all.extend(own);
    }
    Value::Object(all)
}

/// Returns the report of a corpus of tokens.
pub fn tokens_json(outcome: &Outcome, skipped: &Skipped) -> Value {
    let mut all = json(outcome, skipped);
    all["frames"] = outcome.frames.into();
    all["without_text"] = outcome.without_text.into();
    all["files_clipped"] = outcome.clipped.into();
    all["files_mixed"] = outcome.files_mixed.into();
    all["below_min_snr"] = outcome.below_limit.into();
    all["x_realtime"] = (outcome.encoded_seconds / outcome.wall_seconds.max(1e-9)).into();
    if let Some(all) = all.as_object_mut() {
        for (mel, tokens) in [("segments", "rows"), ("segments_resumed", "rows_resumed")] {
            let value = all.remove(mel).unwrap_or_default();
            all.insert(tokens.to_owned(), value);
        }
        all.remove("steady_segments_per_second");
    }
    all
}

pub fn tokens_text(outcome: &Outcome) -> String {
    let seconds = outcome.wall_seconds.max(1e-9);
    let converted: String = [(outcome.files_resampled, "resampled"), (outcome.files_mixed, "mixed down")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!(", {n} {what}"))
        .collect();
    format!(
        "{} ({} from before), {}, {:.1} s of audio{converted}\n\
         {:.2} s, headers {:.2} s of it; {:.1}x realtime, {:.1} files/s\n\n{}",
        count(outcome.files_ok as u64, "file"),
        outcome.resumed_segments,
        count(outcome.frames, "frame"),
        outcome.audio_seconds,
        outcome.wall_seconds + outcome.scan_seconds,
        outcome.scan_seconds,
        outcome.encoded_seconds / seconds,
        outcome.counters.files as f64 / seconds,
        stages(&outcome.counters, outcome.wall_seconds, outcome.threads),
    )
}

pub fn rehearsal_json(rehearsal: &Rehearsal) -> Value {
    let mut all = shared(&rehearsal.counters, rehearsal.wall_seconds, rehearsal.threads);
    let seconds = rehearsal.wall_seconds.max(1e-9);
    let [rows, slots] = rehearsal.slots;
    let own = json!({
        "segments": rehearsal.segments,
        "audio_seconds": rehearsal.audio_seconds,
        "segments_per_second": rehearsal.segments as f64 / seconds,
        "x_realtime": rehearsal.audio_seconds / seconds,
        "segments_per_buffer": rows,
        "buffers_in_flight": slots,
    });
    if let Value::Object(own) = own {
        all.extend(own);
    }
    Value::Object(all)
}
