//! Merges shards that are files of lines.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::shard::{Named, number, numbered, same_inputs, total};
use super::{Merge, Merged, without_rows};
use crate::dataset::counters::Counters;
use crate::dataset::store::INPUTS;
use crate::dataset::store::lines::join::join;
use crate::dataset::store::lines::{LineFormat, Lines, Origin, Repeats};
use crate::dataset::store::paths::Paths;
use crate::{Error, Result};

/// Attributes that all shards have in common.
const COMMON: [&str; 3] = ["version", "melisma.model", "config"];

/// Joins the lines of shards, in the order of their numbers.
pub(super) fn merge(request: &Merge<'_>, paths: &Paths, counters: &Counters) -> Result<Merged> {
    let open = |path: &PathBuf| Ok((path.clone(), Origin::open(path)?));
    let mut parts: Vec<(PathBuf, Origin)> = request.shards.iter().map(open).collect::<Result<_>>()?;
    let lines = same_form(request, &parts)?;
    if !Lines::is_name(&paths.output) {
        return Err(no_columns(&parts[0].0, lines));
    }
    let named: Vec<Named<'_>> = parts.iter().map(|(path, origin)| (path.as_path(), &origin.attributes)).collect();
    same_inputs(&named)?;
    let (missing, n_unnumbered) = numbered(&named, request.missing)?;
    let total = total(&named);
    if parts.len() > 1
        && let Some((path, _)) = named.iter().find(|(_, attributes)| number(attributes).is_none())
    {
        let message =
            format!("{}: these lines are not a shard, so their place among others is not known", path.display());
        return Err(
            Error::invalid(message).with_hint("join lines of different corpora with `cat`; `verify` checks them")
        );
    }
    parts.sort_by_key(|(_, origin)| number(&origin.attributes));
    if parts.iter().all(|(_, origin)| origin.rows == 0) {
        return Err(without_rows(parts.len()));
    }
    let attributes = attributes(&parts, (&missing, total));
    let borrowed: Vec<(&Path, Origin)> = parts.iter().map(|(path, origin)| (path.as_path(), origin.clone())).collect();
    let to = (paths.output.as_path(), request.existing);
    let joined = join(&borrowed, lines, attributes, to, (request.threads, counters))?;
    let mut failures = Vec::new();
    for (path, _) in &parts {
        failures.extend(Paths::new(path)?.read_failures());
    }
    paths.write_failures(&failures)?;
    Ok(Merged { rows: joined.rows, missing, n_unnumbered })
}

/// Returns the form of the lines of all shards.
fn same_form(request: &Merge<'_>, parts: &[(PathBuf, Origin)]) -> Result<Lines> {
    let (first, others) = parts.split_first().ok_or_else(|| Error::invalid("no shards were named"))?;
    for (path, origin) in others {
        let at = |message: &str| Error::invalid(format!("{}: {message} than {}", path.display(), first.0.display()));
        if origin.lines != first.1.lines {
            return Err(at("its lines have another form").with_hint("write all shards with the same settings"));
        }
        if let Some(name) = COMMON.iter().find(|name| origin.attributes.get(**name) != first.1.attributes.get(**name)) {
            let what =
                if *name == "melisma.model" { "its codes are of another model" } else { "it has other settings" };
            return Err(at(what).with_hint("encode all shards with the same model and settings"));
        }
    }
    match request.lines {
        Some(asked) if asked != first.1.lines => {
            let message = format!("{}: these lines have another form than the one asked for", first.0.display());
            Err(Error::invalid(message)
                .with_hint("lines keep their form: ask for none, or merge the stores of the same rows"))
        }
        _ => Ok(first.1.lines),
    }
}

/// Returns the error for lines that would become columns.
fn no_columns(path: &Path, lines: Lines) -> Error {
    let why = match (lines.repeats, lines.format) {
        (Repeats::Drop, _) => "frames that repeat were dropped from them",
        (Repeats::Keep, LineFormat::Codes | LineFormat::Orpheus) => {
            "files that failed and the index of files are not in them"
        }
    };
    Error::invalid(format!("{}: lines have no columns: {why}", path.display()))
        .with_hint("name an output that ends with .jsonl, or encode to the other format")
}

/// Returns the attributes of the joined lines. Rows have no hashes in lines, so their plan is made of those of the
/// shards.
fn attributes(parts: &[(PathBuf, Origin)], (missing, total): (&[u64], Option<u64>)) -> Map<String, Value> {
    let mut attributes = parts.first().map(|(_, origin)| origin.attributes.clone()).unwrap_or_default();
    if attributes.remove("shard").is_some() {
        let mut hash = blake3::Hasher::new();
        for (_, origin) in parts {
            hash.update(origin.attributes.get("plan").and_then(Value::as_str).unwrap_or_default().as_bytes());
        }
        attributes.insert("plan".to_owned(), hash.finalize().to_hex().to_string().into());
    }
    attributes.remove(INPUTS);
    if let Some(total) = total.filter(|_| !missing.is_empty()) {
        let names: Vec<String> = missing.iter().map(|index| format!("{index}/{total}")).collect();
        attributes.insert("missing_shards".to_owned(), names.join(" ").into());
    }
    attributes
}
