//! The shards of a merge: which there are, and whether they belong together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Missing;
use crate::dataset::store::{INPUTS, Store};
use crate::text::count;
use crate::{Error, Remedy, Result};

/// The first and the last file of a shard, its path and its rows.
pub(super) type Part<'a> = ((i64, i64), &'a PathBuf, Store);

/// A shard's path and its attributes.
pub(super) type Named<'a> = (&'a Path, &'a Map<String, Value>);

fn text<'a>(attributes: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    attributes.get(name).and_then(Value::as_str)
}

/// Returns the first and the last file of a shard. An empty shard sorts after all others.
pub(super) fn bounds(store: &Store) -> Result<(i64, i64)> {
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
pub(super) fn same_inputs(parts: &[Named<'_>]) -> Result<()> {
    let mut known = parts.iter().filter_map(|(path, attributes)| Some((path, text(attributes, INPUTS)?)));
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

/// Returns the error for two parts that both have files of the same indices.
pub(super) fn overlapping(pair: &[Named<'_>]) -> Error {
    let paths: Vec<String> = pair.iter().map(|(path, _)| path.display().to_string()).collect();
    let plans: Vec<Option<&str>> = pair.iter().map(|(_, attributes)| text(attributes, "plan")).collect();
    let is_same = plans.windows(2).all(|plans| plans[0] == plans[1]);
    let is_shard = |(_, attributes): &Named<'_>| number(attributes).is_some() || is_old(attributes);
    if is_same || pair.iter().all(is_shard) {
        return Error::invalid(format!("the files of {} overlap", paths.join(" and ")))
            .with_hint("name each shard once, and do not merge a dataset that was merged before");
    }
    Error::invalid(format!("{} are not shards of one build", paths.join(" and ")))
        .with_hint("build one dataset of the files of both, or its shards, and merge those")
}

/// Returns whether the format is too old to record the number of a shard.
fn is_old(attributes: &Map<String, Value>) -> bool {
    attributes.get("version").and_then(Value::as_i64) < Some(2)
}

/// Returns the shard's number, counted from 1, and the number of shards.
pub(super) fn number(attributes: &Map<String, Value>) -> Option<(u64, u64)> {
    let (index, total) = text(attributes, "shard")?.split_once('/')?;
    Some((index.parse().ok()?, total.parse().ok()?))
}

pub(super) fn total(parts: &[Named<'_>]) -> Option<u64> {
    parts.iter().find_map(|(_, attributes)| number(attributes)).map(|(_, total)| total)
}

/// Returns the missing shards, and the number of shards without a number.
pub(super) fn numbered(parts: &[Named<'_>], policy: Missing) -> Result<(Vec<u64>, usize)> {
    let n_unnumbered = parts.iter().filter(|(_, named)| number(named).is_none() && is_old(named)).count();
    let Some(total) = total(parts) else { return Ok((Vec::new(), n_unnumbered)) };
    let mut there = BTreeSet::new();
    for (path, attributes) in parts {
        let Some((index, of)) = number(attributes) else { continue };
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
