//! Builds a finished dataset from audio files.

mod columns;
mod pipeline;
mod repair;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use melisma_kernels::lock::Mutex;
use pipeline::{Job, RunStats};
pub use repair::Repaired;
use serde_json::{Map, Value};

use super::counters::{Counters, Snapshot};
use super::failure::{self, Failure, RowFailure, TEXT_STAGE, in_order};
use super::plan::{Check, Feature, Plan, Request, Scan, Tokens};
use super::store::change::Change;
use super::store::identity::plan_of;
use super::store::journal::{self, Header, Journal};
use super::store::lines::origin::{self, Origin};
use super::store::paths::Paths;
use super::store::{INPUTS, Kind, Layout, Store, guard};
use super::tokens::round_trip;
use super::work::{FailedFiles, Work, too_many};
use crate::config::Threads;
use crate::output::{self, Existing};
use crate::runtime::memory::Space;
use crate::text::count;
use crate::{Error, Result};

/// The result of a build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// Files whose rows are all valid.
    pub files_ok: usize,
    /// The files that failed, in order.
    pub failures: Vec<Failure>,
    /// Audio files and texts that have no counterpart.
    pub without_text: usize,
    /// Rows whose audio differs from the file by more than the limit.
    pub below_limit: usize,
    /// Files whose audio is clipped, which is listed but is not a failure.
    pub clipped: usize,
    /// Files that are quieter than asked, so that their peaks fit; they are listed but are no failures.
    pub limited: usize,
    /// Files that filters left out, which are listed but are not failures.
    pub left_out: usize,
    /// Files that were written after a finished output was built, which is kept as it is.
    pub newer: usize,
    /// Rows of the dataset.
    pub segments: usize,
    /// Frames of tokens.
    pub frames: u64,
    /// Rows that an earlier run wrote.
    pub resumed_segments: usize,
    /// Seconds of audio.
    pub audio_seconds: f64,
    /// Seconds of audio of the rows that this run made.
    pub encoded_seconds: f64,
    /// Files whose headers were repaired.
    pub files_repaired: usize,
    /// Files that were resampled.
    pub files_resampled: usize,
    /// Files that were mixed down to one channel.
    pub files_mixed: usize,
    /// Seconds spent reading headers.
    pub scan_seconds: f64,
    /// Seconds from the first row to the last.
    pub wall_seconds: f64,
    /// Rows per second over the middle 80 % of this run.
    pub steady_rows_per_second: f64,
    /// Threads that worked.
    pub threads: usize,
    /// The counters of this run.
    pub counters: Snapshot,
}

impl Outcome {
    /// Returns the number of files that have no valid row.
    pub fn files_failed(&self) -> usize {
        self.failures.len() - self.without_text - self.below_limit - self.clipped - self.limited - self.left_out
    }

    /// Returns how many of the failures there are of each [`Failure::code`].
    pub fn failures_by_code(&self) -> BTreeMap<&str, usize> {
        failure::by_code(&self.failures)
    }
}

impl Request<'_> {
    /// Builds the dataset, or resumes an earlier run of the same plan.
    ///
    /// # Errors
    /// The output exists with another plan and may not be replaced, a disk is full, the budget or the
    /// device runs out of memory, or a file fails and the request stops on failures. Finished rows stay
    /// on disk, and the same request resumes from there.
    pub fn build(&self) -> Result<Outcome> {
        self.build_watched(&Counters::default(), |_, _| {})
    }

    /// Works like [`Request::build`]. Calls `planned` with the plan and the rows of earlier runs before the work
    /// begins; from then on `counters` show how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Request::build`], or it was stopped.
    pub fn build_watched(&self, counters: &Counters, planned: impl FnOnce(&Plan, usize)) -> Result<Outcome> {
        build(self, counters, planned)
    }
}

/// Works like [`Request::build_watched`].
fn build(request: &Request<'_>, counters: &Counters, planned: impl FnOnce(&Plan, usize)) -> Result<Outcome> {
    let start = Instant::now();
    output::target(&request.output, request.existing)?;
    let paths = Paths::new(&request.output)?;
    guard::spare(&paths, request.inputs.paths())?;
    if request.existing == Existing::Replace {
        guard::output(&request.output)?;
    }
    let (store_kind, budget, threads) =
        (request.store()?, request.context.budget(), Threads::Count(request.threads).checked()?);
    let (shard, n_shards) = request.shard;
    if shard >= n_shards {
        return Err(Error::invalid(format!("shard {shard} is out of range: {n_shards} shards, counted from 0")));
    }
    if let Feature::Tokens(tokens) = &request.feature {
        tokens.texts.check_inputs(request.inputs)?;
    }
    let job = Job::new(request)?;
    let part = request.inputs.shard(request.shard.0, request.shard.1);
    let plan = Plan::new(request.feature.clone(), request.inputs, part, Scan { threads, counters })?;
    let refused = plan.refused.iter().map(|refused| &refused.failure);
    let mut failed = refused.filter(|failure| failure.is_refusal());
    let (first, n_others) = (failed.next(), failed.count());
    if let Some(failure) = first {
        let error = Error::invalid(format!("{}: {}", failure.path, failure.message));
        too_many(1 + n_others, request.max_failures, error)?;
    }
    if plan.rows.is_empty() && request.shard.1 <= 1 {
        return Err(without_rows(&plan));
    }
    let scan_seconds = start.elapsed().as_secs_f64();
    let mut layout = columns::layout(&plan, request.shard);
    if request.shard.1 > 1 {
        layout.attributes.insert(INPUTS.to_owned(), request.inputs.fingerprint().into());
    }
    let hash = layout.text("plan").unwrap_or_default().to_owned();
    let outcome = |failures: Vec<Failure>, resumed_segments: usize, wall_seconds: f64, stats: &RunStats| {
        let n_failed = failures.iter().filter(|failure| failure.is_refusal()).count();
        let left_out = failures.iter().filter(|failure| failure.is_left_out()).count();
        Outcome {
            files_ok: plan.n_inputs.saturating_sub(n_failed + left_out),
            left_out,
            newer: 0,
            without_text: failures.iter().filter(|failure| failure.stage == TEXT_STAGE).count(),
            below_limit: failures.iter().filter(|failure| failure.is_below_limit()).count(),
            limited: failures.iter().filter(|failure| failure.is_limited()).count(),
            clipped: failures.iter().filter(|failure| failure.is_clipped()).count(),
            failures,
            segments: plan.rows.len(),
            frames: if matches!(plan.feature, Feature::Tokens(_)) { plan.n_frames() } else { 0 },
            resumed_segments,
            audio_seconds: plan.audio_seconds,
            encoded_seconds: counters.now().samples as f64 / f64::from(plan.feature.sample_rate()),
            files_repaired: plan.n_repaired,
            files_resampled: plan.n_resampled,
            files_mixed: plan.n_mixed,
            scan_seconds,
            wall_seconds,
            steady_rows_per_second: stats.steady_rows_per_second,
            threads: stats.threads,
            counters: counters.now(),
        }
    };
    let held = budget.reserve(Space::Host, plan.bytes());
    let _held = held.map_err(|error| job.with_least(error, &plan))?;
    if request.output.exists() && request.existing == Existing::Refuse {
        if !is_finished(request, &paths.output, &hash)? {
            let change = Change::of_attributes(attributes(request, &paths.output).as_ref(), &layout.attributes);
            return Err(guard::already(&request.output, &format!(", and is not of this plan{}", change.after())));
        }
        if guard::beside(&paths, store_kind, Existing::Refuse).is_ok() {
            paths.clear()?;
        }
        planned(&plan, plan.rows.len());
        let mut failures = paths.read_failures();
        failures.retain(|failure| !failure.is_below_limit());
        failures.extend(still_below_limit(request, &paths.output, &plan)?);
        let newer = newer(request, &paths.output);
        return Ok(Outcome { newer, ..outcome(failures, plan.rows.len(), 0.0, &RunStats::default()) });
    }
    guard::beside(&paths, store_kind, request.existing)?;
    let header = Header::new(&hash, &plan.fingerprint);
    let (mut store, journal, past) = begin(request, (&paths, store_kind), layout, &plan, &header)?;
    let mut done = vec![false; plan.rows.len()];
    for &(first, n) in past.iter().flat_map(|record| &record.rows) {
        done.iter_mut().skip(first as usize).take(n as usize).for_each(|done| *done = true);
    }
    let resumed = done.iter().filter(|done| **done).count();
    // The records themselves take more memory than the rows.
    let past: Vec<RowFailure> = past.into_iter().flat_map(|record| record.failures).collect();
    planned(&plan, resumed);
    let begun = Instant::now();
    if job.maps_output(request) {
        store.map();
    }
    let work = Work {
        plan: &plan,
        store: &store,
        device: request.context.device(),
        budget,
        counters,
        journal: Mutex::new(journal),
        techniques: request.techniques,
        failed: FailedFiles::new(request.max_failures, plan.refused.iter().chain(&past)),
    };
    let mut stats = pipeline::run(&work, &job, &done)?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    store.sync()?;
    let below = below_limit(&store, &plan)?;
    let found = plan.refused.iter().cloned().chain(past).chain(std::mem::take(&mut stats.failures)).chain(below);
    // First, as in the list that a merge of shards joins.
    let mut failures = texts_without_file(request)?;
    failures.extend(in_order(found.collect()));
    paths.write_failures(&failures)?;
    match &request.lines {
        None => paths.publish(request.existing)?,
        Some(lines) => {
            lines.write(&store, &paths.output, request.existing)?;
            paths.clear()?;
        }
    }
    Ok(outcome(failures, resumed, wall_seconds, &stats))
}

/// Returns the error for files of which none has a row.
fn without_rows(plan: &Plan) -> Error {
    let reasons: Vec<String> = failure::by_code(plan.refused.iter().map(|refused| &refused.failure))
        .iter()
        .map(|(code, n)| format!("{n} {code}"))
        .collect();
    let first = plan.refused.first().map_or_else(String::new, |RowFailure { failure, .. }| {
        format!(" ({}); the first is {}: {}", reasons.join(", "), failure.path, failure.message)
    });
    let error = Error::invalid(format!("no row can be made of {}{first}", count(plan.n_inputs as u64, "file")));
    let are_missing = plan.refused.iter().all(|refused| refused.failure.code == failure::MISSING);
    match are_missing && !plan.refused.is_empty() {
        true => error.with_hint("relative paths of a list begin at its folder, or at the root that is named"),
        false => error.with_hint("name other files, or change what a row is"),
    }
}

/// Returns whether the output is finished and of the plan `hash`.
fn is_finished(request: &Request<'_>, output: &Path, hash: &str) -> Result<bool> {
    let Some(lines) = request.lines else {
        return Ok(plan_of(output).is_some_and(|found| found == hash));
    };
    match Origin::open(output) {
        Ok(origin) if origin.is_of(lines, hash) => origin.check(output).map(|()| true),
        _ => Ok(false),
    }
}

/// Returns the number of inputs that were written after the output.
fn newer(request: &Request<'_>, output: &Path) -> usize {
    let written = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let built = written(output);
    let files = request.inputs.files.iter().filter_map(|input| written(input.path()));
    files.filter(|file| built.is_some_and(|built| *file > built)).count()
}

/// Returns the attributes of a finished output, where it has any.
fn attributes(request: &Request<'_>, output: &Path) -> Option<Map<String, Value>> {
    match request.lines {
        Some(_) => Origin::open(output).ok().map(|origin| origin.attributes),
        None => Store::open(output).ok().map(|store| store.layout.attributes),
    }
}

/// Returns the rows of a finished output that are below the limit, which is not a part of the plan.
fn still_below_limit(request: &Request<'_>, output: &Path, plan: &Plan) -> Result<Vec<Failure>> {
    match (&plan.feature, request.lines) {
        (Feature::Tokens(Tokens { check: Check::Measure { min_snr_db: Some(least) }, .. }), Some(_)) => {
            origin::below_limit(output, *least)
        }
        (_, Some(_)) => Ok(Vec::new()),
        (_, None) => {
            let below = below_limit(&Store::open(output)?, plan)?;
            Ok(below.into_iter().map(|below| below.failure).collect())
        }
    }
}

fn below_limit(store: &Store, plan: &Plan) -> Result<Vec<RowFailure>> {
    match &plan.feature {
        Feature::Mel(_) => Ok(Vec::new()),
        Feature::Tokens(tokens) => round_trip::below_limit(tokens.check, store, plan),
    }
}

/// Returns texts that belong to no input. The first of several shards lists them.
fn texts_without_file(request: &Request<'_>) -> Result<Vec<Failure>> {
    match &request.feature {
        Feature::Tokens(tokens) if request.shard.0 == 0 => tokens.texts.without_file(request.inputs),
        _ => Ok(Vec::new()),
    }
}

/// Opens the partial output of an earlier run of the same plan, or starts over.
fn begin(
    request: &Request<'_>,
    (paths, store): (&Paths, Kind),
    layout: Layout,
    plan: &Plan,
    header: &Header,
) -> Result<(Store, Journal, Vec<journal::Record>)> {
    let restart = request.existing == Existing::Replace;
    if let Some(past) = journal::read(&paths.journal).filter(|_| paths.partial.exists()) {
        let is_same = past.header.plan == header.plan && past.header.inputs == header.inputs;
        if is_same {
            if let Ok(store) = Store::reopen(&paths.partial, store, layout.clone()) {
                alone(&store, request)?;
                let journal = Journal::reopen(&paths.journal, &past)?;
                return Ok((store, journal, past.records));
            }
        } else if !restart {
            let was = Store::open(&paths.partial).ok().map(|store| store.layout.attributes);
            return Err(guard::unfinished(paths, &Change::of_attributes(was.as_ref(), &layout.attributes)));
        }
    }
    if paths.partial.is_file() {
        // A running build holds a lock on its partial file.
        if let Ok(file) = std::fs::File::open(&paths.partial)
            && matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
        {
            return Err(busy(request));
        }
    }
    paths.clear()?;
    let store = Store::create(&paths.partial, store, layout)?;
    paths.conceal()?;
    alone(&store, request)?;
    columns::write(&store, plan)?;
    let journal = Journal::create(&paths.journal, header)?;
    Ok((store, journal, Vec::new()))
}

fn alone(store: &Store, request: &Request<'_>) -> Result<()> {
    if store.lock() { Ok(()) } else { Err(busy(request)) }
}

fn busy(request: &Request<'_>) -> Error {
    Error::new(
        crate::ErrorKind::Busy,
        format!("{}: another process is building this dataset", request.output.display()),
    )
    .with_hint("wait for it to end, or choose another name")
}
