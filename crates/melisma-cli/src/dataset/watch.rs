//! What builds of spectrograms and of tokens share: shards, progress, and the list of failures.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use melisma::dataset::{Counters, Input, Inputs, Outcome, Request, Search};
use melisma::output::{self, Existing};
use melisma::runtime::thread;
use melisma::text::count;
use melisma::{Error, Result};

use crate::args::InputArgs;
use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal;

/// Failures listed in the text output.
const MAX_SHOWN: usize = 10;
/// How often progress is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Finds the input files, and says what was left out.
pub fn find(session: &Session, places: &[PathBuf], files: &InputArgs) -> Result<Inputs> {
    if places.iter().any(|place| is_pipe(place)) {
        return Err(Error::invalid("-: stdin is not an audio file here").with_hint("for a list of files use --list -"));
    }
    let inputs = Search::new(places).with_list(files.list.clone()).with_root(files.root.clone()).run()?;
    if let Some(trace) = &session.settings.trace.value {
        output::refuse_among(trace, inputs.files.iter().map(Input::path))?;
    }
    inputs.skipped.lines().iter().for_each(|line| session.say(&format!("note: skipped {}", terminal::one_line(line))));
    Ok(inputs)
}

pub fn shard(text: Option<&str>) -> Result<(usize, usize)> {
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

/// Lists the failures of a build on stderr.
pub fn report_failures(session: &Session, outcome: &Outcome, place: &Path) {
    if outcome.newer > 0 {
        session.say(&format!(
            "warning: {} written after {}, which was finished before and is kept as it is\nhint: use -f to build it again",
            count_were(outcome.newer),
            terminal::name(place)
        ));
    }
    if outcome.failures.is_empty() {
        return;
    }
    if outcome.failures.len() > outcome.clipped + outcome.limited + outcome.left_out {
        session.refused_some();
    }
    // Beside the dataset itself if `place` is a link.
    let place = output::target(place, Existing::Replace).unwrap_or_else(|_| place.to_owned());
    let list = format!("{}.failures.jsonl", terminal::name(&place));
    let is = |n: usize, one: &str, many: &str| if n == 1 { one.to_owned() } else { many.to_owned() };
    let mut kinds = Vec::new();
    let n = outcome.files_failed();
    if n > 0 {
        kinds.push(format!("{} {}", count(n as u64, "file"), is(n, "was refused", "were refused")));
    }
    if outcome.left_out > 0 {
        let verb = is(outcome.left_out, "was left out", "were left out");
        kinds.push(format!("{} {verb} by a filter", count(outcome.left_out as u64, "file")));
    }
    let codes = outcome.failures_by_code();
    let n_of = |code: &str| codes.get(code).copied().unwrap_or(0);
    let (n_missing, n_no_file) = (n_of("missing"), n_of("no-file"));
    if n_no_file > 0 {
        let verb = is(n_no_file, "matches no file", "match no file");
        kinds.push(format!("{} of the table {verb}", count(n_no_file as u64, "row")));
    }
    let no_text = outcome.without_text.saturating_sub(n_no_file);
    if no_text > 0 {
        kinds.push(format!("{} {} a text", count(no_text as u64, "row"), is(no_text, "lacks", "lack")));
    }
    if outcome.below_limit > 0 {
        kinds.push(format!("{} below --min-snr", count(outcome.below_limit as u64, "file")));
    }
    if outcome.clipped > 0 {
        kinds.push(format!(
            "{} {}",
            count(outcome.clipped as u64, "file"),
            is(outcome.clipped, "is clipped", "are clipped")
        ));
    }
    if outcome.limited > 0 {
        let verb = is(
            outcome.limited,
            "is quieter than asked, because of its peaks",
            "are quieter than asked, because of their peaks",
        );
        kinds.push(format!("{} {verb}", count(outcome.limited as u64, "file")));
    }
    let it_is = is(outcome.failures.len(), "it is", "they are");
    session.say(&format!("{}; {it_is} listed in {list}", kinds.join(", ")));
    if n + outcome.left_out > 0 {
        session.say(&format!("  by reason: {}", reasons(outcome)));
    }
    for failure in outcome.failures.iter().take(MAX_SHOWN) {
        session.say(&format!("  {}", terminal::one_line(&format!("{}: {}", failure.path, failure.message))));
    }
    if let Some(more) = outcome.failures.len().checked_sub(MAX_SHOWN).filter(|&more| more > 0) {
        session.say(&format!("  and {more} more"));
    }
    if n_missing > 0 {
        session.say("hint: relative paths of a list begin at its folder, or at that of --root");
    }
    if n_no_file > 0 {
        session.say("hint: name every folder of the table's files, or keep only the rows of the inputs");
    }
}

fn count_were(n: usize) -> String {
    format!("{} {}", count(n as u64, "file"), if n == 1 { "was" } else { "were" })
}

/// Returns how many files were refused or left out for each reason, most frequent first.
fn reasons(outcome: &Outcome) -> String {
    let mut counts: Vec<(usize, &str)> = Vec::new();
    for failure in outcome.failures.iter().filter(|failure| failure.is_refusal() || failure.is_left_out()) {
        match counts.iter_mut().find(|(_, code)| *code == failure.code) {
            Some((n, _)) => *n += 1,
            None => counts.push((1, &failure.code)),
        }
    }
    counts.sort_by_key(|&(n, code)| (std::cmp::Reverse(n), code));
    let shown: Vec<String> = counts.iter().map(|(n, code)| format!("{n} {code}")).collect();
    shown.join(", ")
}

/// Builds, with a progress bar on a terminal.
pub fn build(session: &Session, request: &Request<'_>) -> Result<Outcome> {
    let counters = Counters::default();
    if !session.has_audience() {
        return request.build();
    }
    let bar = ProgressBar::new_spinner();
    bar.set_message("reading headers");
    let (planned, plan) = mpsc::channel();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (bar, counters, is_done) = (&bar, &counters, &is_done);
        let show = move || {
            let (rows, resumed, samples_per_second, refused) = loop {
                match plan.recv_timeout(TICK) {
                    Ok(planned) => break planned,
                    Err(RecvTimeoutError::Timeout) => bar.tick(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            };
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
                std::thread::sleep(TICK);
            }
        };
        thread::start_in(scope, show)?;
        let rate = request.feature().sample_rate();
        let outcome = request.build_watched(counters, move |plan, resumed| {
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
