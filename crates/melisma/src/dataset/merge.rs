//! Merges shards into one dataset, with the same bytes as a single build.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::store::hash::{Found, Table, is_plain};
use super::store::identity::Identity;
use super::store::paths::Paths;
use super::store::{
    COLUMNS, Column, ColumnType, Extent, INPUTS, Kind, Layout, RAGGED, Store, TOKEN_COLUMNS, guard, journal, verify,
};
use crate::output::{self, Existing};
use crate::runtime::memory::{Budget, Space};
use crate::text::count;
use crate::{Error, Remedy, Result};

/// Bytes that are copied at once.
const BLOCK: usize = 4 << 20;

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

    /// Whether an existing output may be replaced.
    #[must_use]
    pub fn with_existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// What to do if shards are missing.
    #[must_use]
    pub fn with_missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Threads that check the shards.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
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

type Part<'a> = ((i64, i64), &'a PathBuf, Store);

/// The first and the last file of a shard. An empty shard sorts after all others.
fn bounds(store: &Store) -> Result<(i64, i64)> {
    let n_rows = store.layout.n_rows;
    let column = store.layout.column("file_index")?;
    if n_rows == 0 {
        return Ok((i64::MAX, i64::MAX));
    }
    let at = |row: u64| -> Result<i64> {
        let mut bytes = [0; 8];
        store.read(column, row, &mut bytes)?;
        Ok(i64::from_le_bytes(bytes))
    };
    Ok((at(0)?, at(n_rows - 1)?))
}

/// Fails for shards of different lists of files: some files would be missing, and others there twice.
fn same_inputs(parts: &[Part<'_>]) -> Result<()> {
    let mut known = parts.iter().filter_map(|(_, path, store)| Some((path, store.layout.text(INPUTS)?)));
    let Some((first, inputs)) = known.next() else { return Ok(()) };
    match known.find(|(_, others)| *others != inputs) {
        None => Ok(()),
        Some((path, _)) => {
            let message =
                format!("{} and {} were divided from different lists of files", first.display(), path.display());
            Err(Error::invalid(message)
                .with_hint("build all shards from one list, as in files.txt with a path per line"))
        }
    }
}

/// The shard's number, counted from 1, and the number of shards.
fn number(store: &Store) -> Option<(u64, u64)> {
    let (index, total) = store.layout.text("shard")?.split_once('/')?;
    Some((index.parse().ok()?, total.parse().ok()?))
}

fn total(parts: &[Part<'_>]) -> Option<u64> {
    parts.iter().find_map(|(_, _, store)| number(store)).map(|(_, total)| total)
}

/// The missing shards, and the number of shards without a number.
fn numbered(parts: &[Part<'_>], policy: Missing) -> Result<(Vec<u64>, usize)> {
    let is_old = |store: &Store| store.layout.attributes.get("version").and_then(Value::as_i64) < Some(2);
    let n_unnumbered = parts.iter().filter(|(_, _, store)| number(store).is_none() && is_old(store)).count();
    let Some(total) = total(parts) else { return Ok((Vec::new(), n_unnumbered)) };
    let mut there = BTreeSet::new();
    for (_, path, store) in parts {
        let Some((index, of)) = number(store) else { continue };
        if of != total || !(1..=total).contains(&index) || !there.insert(index) {
            return Err(Error::invalid(format!(
                "{}: shard {index}/{of} does not belong to the others, of {total}",
                path.display()
            ))
            .with_hint("merge the shards of one build, each once"));
        }
    }
    // A shard without a number may be any of the missing ones.
    let mut missing: Vec<u64> = (1..=total.min(1 << 20)).filter(|index| !there.contains(index)).collect();
    if n_unnumbered > 0 && missing.len() <= n_unnumbered {
        missing.clear();
    }
    if !missing.is_empty() && policy == Missing::Refuse {
        let names: Vec<String> = missing.iter().take(10).map(|index| format!("{index}/{total}")).collect();
        let more = if missing.len() > names.len() { ", ..." } else { "" };
        let (n, verb) = (count(missing.len() as u64, "shard"), if missing.len() == 1 { "is" } else { "are" });
        return Err(Error::invalid(format!("{n} of {total} {verb} missing: {}{more}", names.join(", ")))
            .with_hint("name all of them")
            .or_hint(Remedy::AllowMissing));
    }
    Ok((missing, n_unnumbered))
}

/// The layout of the merged dataset: text columns as wide as the widest, and the identity of all
/// rows.
fn layout(parts: &[Part<'_>]) -> Result<Layout> {
    let Some((_, _, first)) = parts.first() else {
        return Err(Error::invalid("no shards were named"));
    };
    let mut layout = first.layout.clone();
    layout.n_rows = 0;
    // Safetensors lists columns by name.
    let order = if layout.is_tokens() { &TOKEN_COLUMNS[..] } else { &COLUMNS[..] };
    layout.columns.sort_by_key(|column| order.iter().position(|name| *name == column.name));
    layout.columns.iter_mut().filter(|column| !is_plain(&first.layout, &column.name)).for_each(|column| {
        column.len = Some(u64::from(Extent::of(&column.name) == Extent::Offsets));
    });
    let config = layout.text("config").unwrap_or_default().to_owned();
    let mut identity = Identity::new(&config);
    for (_, path, part) in parts {
        if part.layout.attributes.get("version") != layout.attributes.get("version") {
            return Err(Error::invalid(format!(
                "{}: its format has another version than the first shard's",
                path.display()
            ))
            .with_hint("build the older shards again"));
        }
        if part.layout.text("config") != Some(&config) || part.layout.columns.len() != layout.columns.len() {
            return Err(Error::invalid(format!("{}: it was built with other settings", path.display()))
                .with_hint("shards must have the same preset, segments and element type"));
        }
        for column in &mut layout.columns {
            let theirs = &part.layout.columns[part.layout.column(&column.name)?];
            match (&mut column.element, theirs.element) {
                (ColumnType::Text(width), ColumnType::Text(other)) => *width = (*width).max(other),
                (ours, theirs) if *ours == theirs => {}
                _ => return Err(Error::invalid(format!("{}: `{}` is of another type", path.display(), column.name))),
            }
            if column.shape != theirs.shape {
                return Err(Error::invalid(format!("{}: `{}` has another shape", path.display(), column.name)));
            }
            column.len = column.len.map(|len| len + entries(&part.layout, theirs));
        }
        layout.n_rows += part.layout.n_rows;
        let add = |found: Found<'_>| {
            identity.add_entry(&found.entry);
            Ok(())
        };
        let each = Table::new(part)?.each(0..part.layout.n_rows, add);
        each.map_err(|error| error.at(path.display()))?;
    }
    layout.attributes.insert("plan".to_owned(), Value::from(identity.finish()));
    Ok(layout)
}

/// The entries that a shard adds to a column: the last one of its offsets is the first of the next
/// shard's.
fn entries(layout: &Layout, column: &Column) -> u64 {
    if is_plain(layout, &column.name) || Extent::of(&column.name) == Extent::Offsets {
        return layout.n_rows;
    }
    layout.len(column)
}

/// Copies all columns to `starts`, which move to their ends.
fn copy(from: &Store, to: &Store, starts: &mut [u64], budget: &Budget) -> Result<()> {
    let before = starts.to_vec();
    for (column, theirs) in from.layout.columns.iter().enumerate() {
        let ours = to.layout.column(&theirs.name)?;
        let n_entries = from.layout.len(theirs);
        let values = RAGGED.iter().find(|(_, offsets)| *offsets == theirs.name).map(|(values, _)| *values);
        // What is added to every offset.
        let moved = values.map_or(Ok(0), |values| to.layout.column(values).map(|values| before[values]))?;
        starts[ours] += entries(&from.layout, theirs);
        let (width, wide) = (theirs.row_bytes(), to.layout.columns[ours].row_bytes());
        // Rows that become wider are held twice.
        let copies = if width == wide { 1 } else { 2 };
        let most = BLOCK.min(usize::try_from(budget.free(Space::Host)).unwrap_or(BLOCK) / copies);
        let per_block = (most / wide.max(1)).max(1) as u64;
        let least = (wide * copies) as u64;
        let _held = budget.reserve(Space::Host, per_block * least).map_err(|error| {
            let least = least.div_ceil(1 << 20) << 20;
            Error::new(error.kind(), error.to_string()).with_hint(Remedy::RaiseMemoryLimit { least: Some(least) })
        })?;
        let mut row = 0;
        while row < n_entries {
            let n = per_block.min(n_entries - row);
            let mut bytes = vec![0; n as usize * width];
            from.read(column, row, &mut bytes)?;
            if width != wide {
                let mut padded = vec![0; n as usize * wide];
                padded
                    .chunks_mut(wide)
                    .zip(bytes.chunks(width))
                    .for_each(|(to, from)| to[..width].copy_from_slice(from));
                bytes = padded;
            }
            if moved > 0 {
                for offset in bytes.as_chunks_mut::<8>().0 {
                    *offset = (u64::from_le_bytes(*offset) + moved).to_le_bytes();
                }
            }
            to.write(ours, before[ours] + row, &bytes)?;
            row += n;
        }
    }
    Ok(())
}
