//! Merges shards into one dataset, with the same bytes as a single build.

mod columns;
mod lines;
mod shard;

use std::path::{Path, PathBuf};

use serde_json::Value;

use columns::{copy, layout};
use shard::{Named, bounds, numbered, overlapping, same_inputs, total};

use super::counters::Counters;
use super::failure;
use super::store::change::Change;
use super::store::lines::Lines;
use super::store::paths::Paths;
use super::store::verify::verify_watched;
use super::store::{INPUTS, Kind, Store, guard, journal};
use crate::output::{self, Existing};
use crate::runtime::memory::Budget;
use crate::text::count;
use crate::{Error, Result};

/// What to do if shards are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Fail.
    Refuse,
    /// Merge the others; the attribute `missing_shards` names the missing ones.
    Allow,
}

/// A merge request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Merge<'a> {
    /// The shards, in any order.
    pub shards: &'a [PathBuf],
    /// The path of the merged dataset.
    pub output: &'a Path,
    /// The file format of the merged dataset, unless its name is that of lines.
    pub store: Kind,
    /// The form of the lines if the output is a file of lines; `None` is that of the shards, or else `codes`.
    pub lines: Option<Lines>,
    /// Whether an existing output may be replaced.
    pub existing: Existing,
    /// What to do if shards are missing.
    pub missing: Missing,
    /// Threads that check the shards.
    pub threads: usize,
    /// The budget that memory is charged to.
    pub budget: &'a Budget,
}

impl<'a> Merge<'a> {
    /// Joins all of `shards` into `output`, on one thread within `budget`. An existing output is refused.
    pub fn new(shards: &'a [PathBuf], output: &'a Path, store: Kind, budget: &'a Budget) -> Self {
        let (existing, missing) = (Existing::Refuse, Missing::Refuse);
        Self { shards, output, store, lines: None, existing, missing, threads: 1, budget }
    }

    setters! {
        /// Sets the form of the lines, for an output whose name ends with `.jsonl`.
        pub fn with_lines(lines: Option<Lines>);
        /// Sets whether an existing output may be replaced.
        pub fn with_existing(existing: Existing);
        /// Sets what to do if shards are missing.
        pub fn with_missing(missing: Missing);
        /// Sets threads that check the shards.
        pub fn with_threads(threads: usize);
    }
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// Rows of the merged dataset.
    pub rows: u64,
    /// The missing shards, counted from 1.
    pub missing: Vec<u64>,
    /// Datasets of version 1, which do not record their shard number. If there are any, missing
    /// shards may go unnoticed.
    pub n_unnumbered: usize,
}

/// Joins shards in the order of their files, after checking every row. If the name of the output is that of
/// [lines](Lines::is_name), shards of tokens are written as lines, and lines are joined.
///
/// # Errors
/// The shards have different settings, overlap, are missing or damaged, or the output exists or
/// cannot be written.
pub fn merge(request: &Merge<'_>) -> Result<Merged> {
    merge_watched(request, &Counters::default())
}

/// Works like [`merge`]; `counters` can stop it.
///
/// # Errors
/// As [`merge`], or it was stopped. A stopped merge leaves no output.
pub fn merge_watched(request: &Merge<'_>, counters: &Counters) -> Result<Merged> {
    output::target(request.output, request.existing)?;
    let paths = Paths::new(request.output)?;
    let inputs = inputs(request.shards);
    guard::spare(&paths, inputs.iter().map(PathBuf::as_path))?;
    if request.existing == Existing::Refuse {
        if request.output.exists() {
            return Err(guard::already(request.output, ""));
        }
        if paths.partial.exists() && journal::read(&paths.journal).is_some() {
            return Err(guard::unfinished(&paths, &Change::Unknown));
        }
    }
    if request.lines.is_some() && !Lines::is_name(request.output) {
        return Err(Error::invalid(format!("{}: this is not the name of a file of lines", request.output.display()))
            .with_hint("use a name that ends with .jsonl"));
    }
    guard::output(request.output)?;
    guard::beside(&paths, request.store, request.existing)?;
    let is_list_name = |shard: &&PathBuf| shard.as_os_str().as_encoded_bytes().ends_with(b".failures.jsonl");
    if let Some(list) = request.shards.iter().filter(is_list_name).find(|shard| failure::is_list(shard)) {
        return Err(Error::invalid(format!("{}: this is a list of failures, not a shard", list.display()))
            .with_hint("leave it out, as with the pattern part-?.jsonl"));
    }
    match request.shards.iter().filter(|shard| Lines::is_name(shard)).count() {
        0 => merge_stores(request, &paths, counters),
        n if n == request.shards.len() => lines::merge(request, &paths, counters),
        _ => Err(Error::invalid("some shards are lines, and some are not")
            .with_hint("name shards of one kind, as one build makes them")),
    }
}

fn merge_stores(request: &Merge<'_>, paths: &Paths, counters: &Counters) -> Result<Merged> {
    let mut parts = Vec::new();
    for path in request.shards {
        let store = Store::open(path)?;
        parts.push((bounds(&store).map_err(|error| error.at(path.display()))?, path, store));
    }
    same_inputs(&named(&parts))?;
    parts.sort_by_key(|part| part.0);
    for pair in parts.windows(2) {
        let is_empty = pair[1].0.0 == i64::MAX;
        if !is_empty && pair[0].0.1 >= pair[1].0.0 {
            return Err(overlapping(&named(pair)));
        }
    }
    let (missing, n_unnumbered) = numbered(&named(&parts), request.missing)?;
    let mut layout = layout(&parts, counters)?;
    if layout.n_rows == 0 {
        return Err(without_rows(parts.len()));
    }
    let lines = Lines::is_name(request.output).then(|| request.lines.unwrap_or_default());
    if let (Some(lines), Some((_, path, _))) = (lines, parts.first()) {
        lines.check_layout(&layout).map_err(|error| error.at(path.display()))?;
    }
    layout.attributes.remove("shard");
    layout.attributes.remove(INPUTS);
    if let Some(total) = total(&named(&parts)).filter(|_| !missing.is_empty()) {
        let names: Vec<String> = missing.iter().map(|index| format!("{index}/{total}")).collect();
        layout.attributes.insert("missing_shards".to_owned(), Value::from(names.join(" ")));
    }
    for path in request.shards {
        let verified = verify_watched(path, request.threads, request.budget, counters)?;
        verified.check().map_err(|error| error.at(path.display()))?;
    }
    let mut failures = Vec::new();
    for (_, path, _) in &parts {
        failures.extend(Paths::new(path)?.read_failures());
    }
    paths.clear()?;
    if let Some(lines) = lines {
        let stores: Vec<&Store> = parts.iter().map(|(_, _, store)| store).collect();
        let rows = lines.write_all(&stores, &layout.attributes, (&paths.output, request.existing, counters))?;
        paths.write_failures(&failures)?;
        return Ok(Merged { rows, missing, n_unnumbered });
    }
    let store = Store::create(&paths.partial, request.store, layout)?;
    paths.conceal()?;
    let mut starts = vec![0; store.layout.columns.len()];
    let copied = parts.iter().try_for_each(|part| copy(&part.2, &store, &mut starts, (request.budget, counters)));
    if let Err(error) = copied.and_then(|()| store.sync()) {
        paths.clear()?;
        return Err(error);
    }
    paths.write_failures(&failures)?;
    paths.publish(request.existing)?;
    Ok(Merged { rows: store.layout.n_rows, missing, n_unnumbered })
}

fn named<'a>(parts: &'a [shard::Part<'_>]) -> Vec<Named<'a>> {
    parts.iter().map(|(_, path, store)| (path.as_path(), &store.layout.attributes)).collect()
}

fn without_rows(n_shards: usize) -> Error {
    Error::invalid(format!("{} without a single row", count(n_shards as u64, "shard")))
        .with_hint("their lists of failures say why")
}

/// Returns the shards, and the files of those that are folders.
fn inputs(shards: &[PathBuf]) -> Vec<PathBuf> {
    let within = |shard: &PathBuf| std::fs::read_dir(shard).into_iter().flatten().flatten().map(|entry| entry.path());
    shards.iter().cloned().chain(shards.iter().flat_map(within)).collect()
}
