//! Merges shards into one dataset, with the same bytes as a single build.

mod columns;
mod shard;

use std::path::{Path, PathBuf};

use serde_json::Value;

use columns::{copy, layout};
use shard::{bounds, numbered, same_inputs, total};

use super::store::paths::Paths;
use super::store::verify::verify;
use super::store::{INPUTS, Kind, Store, guard, journal};
use crate::output::{self, Existing};
use crate::runtime::memory::Budget;
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
    /// The file format of the merged dataset.
    pub store: Kind,
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
        Self { shards, output, store, existing: Existing::Refuse, missing: Missing::Refuse, threads: 1, budget }
    }

    setters! {
        /// Whether an existing output may be replaced.
        pub fn with_existing(existing: Existing);
        /// What to do if shards are missing.
        pub fn with_missing(missing: Missing);
        /// Threads that check the shards.
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

/// Joins shards in the order of their files, after checking every row.
///
/// # Errors
/// The shards have different settings, overlap, are missing or damaged, or the output exists or
/// cannot be written.
pub fn merge(request: &Merge<'_>) -> Result<Merged> {
    output::target(request.output, request.existing)?;
    let paths = Paths::new(request.output)?;
    let inputs = inputs(request.shards);
    guard::spare(&paths, inputs.iter().map(PathBuf::as_path))?;
    if request.existing == Existing::Refuse {
        if request.output.exists() {
            return Err(guard::already(request.output, ""));
        }
        if paths.partial.exists() && journal::read(&paths.journal).is_some() {
            return Err(guard::unfinished(&paths));
        }
    }
    guard::output(request.output)?;
    guard::beside(&paths, request.store, request.existing)?;
    let mut parts = Vec::new();
    for path in request.shards {
        let store = Store::open(path)?;
        parts.push((bounds(&store).map_err(|error| error.at(path.display()))?, path, store));
    }
    same_inputs(&parts)?;
    parts.sort_by_key(|part| part.0);
    for pair in parts.windows(2) {
        let is_empty = pair[1].0.0 == i64::MAX;
        if !is_empty && pair[0].0.1 >= pair[1].0.0 {
            let message = format!("the files of {} and {} overlap", pair[0].1.display(), pair[1].1.display());
            return Err(Error::invalid(message)
                .with_hint("name each shard once, and do not merge a dataset that was merged before"));
        }
    }
    let (missing, n_unnumbered) = numbered(&parts, request.missing)?;
    let mut layout = layout(&parts)?;
    layout.attributes.remove("shard");
    layout.attributes.remove(INPUTS);
    if let Some(total) = total(&parts).filter(|_| !missing.is_empty()) {
        let names: Vec<String> = missing.iter().map(|index| format!("{index}/{total}")).collect();
        layout.attributes.insert("missing_shards".to_owned(), Value::from(names.join(" ")));
    }
    for path in request.shards {
        let verified = verify(path, request.threads, request.budget)?;
        verified.check().map_err(|error| error.at(path.display()))?;
    }
    paths.clear()?;
    let store = Store::create(&paths.partial, request.store, layout)?;
    paths.conceal()?;
    let mut starts = vec![0; store.layout.columns.len()];
    for (_, _, part) in &parts {
        copy(part, &store, &mut starts, request.budget)?;
    }
    store.sync()?;
    let mut failures = Vec::new();
    for (_, path, _) in &parts {
        failures.extend(Paths::new(path)?.read_failures());
    }
    paths.write_failures(&failures)?;
    paths.publish(request.existing)?;
    Ok(Merged { rows: store.layout.n_rows, missing, n_unnumbered })
}

/// The shards, and the files of those that are folders.
fn inputs(shards: &[PathBuf]) -> Vec<PathBuf> {
    let within = |shard: &PathBuf| std::fs::read_dir(shard).into_iter().flatten().flatten().map(|entry| entry.path());
    shards.iter().cloned().chain(shards.iter().flat_map(within)).collect()
}
