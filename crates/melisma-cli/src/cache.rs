//! `melisma cache`: engines and compiled kernels on disk.

use std::time::{Duration, SystemTime};

use melisma::optimize::cache::{Cache, EntryInfo, Health};
use melisma::optimize::search::{InputShape, Report};
use melisma::runtime::device::cuda::{self, CachedKernel};
use melisma::text::table::{Align, Table};
use melisma::text::{count, size};
use melisma::{Error, ErrorKind, Result};
use melisma_server::batcher::CapacityCache;
use serde_json::{Value, json};

use crate::args::{CacheArgs, CacheCommand};
use crate::session::Session;

pub fn run(session: &Session, args: &CacheArgs) -> Result<()> {
    let _span = tracing::info_span!("cache").entered();
    let cache = Cache::of(&session.config);
    if let Some(note) = cache.note() {
        session.say(&format!("note: {note}"));
    }
    match args.command {
        CacheCommand::List => show(session, &cache, &cache.list()),
        CacheCommand::Verify => {
            let listed = cache.verify();
            show(session, &cache, &listed)?;
            damaged(&cache, &listed)
        }
        CacheCommand::Clear => clear(session, &cache),
    }
}

fn show(session: &Session, cache: &Cache, listed: &[EntryInfo]) -> Result<()> {
    let kernels = cuda::cached();
    let capacities = session.config.cache_dir.value.as_deref().map_or(0, CapacityCache::count);
    let json = json!({
        "path": cache.folder().map(|path| path.display().to_string()),
        "note": cache.note(),
        "engines": listed.iter().map(entry_json).collect::<Vec<_>>(),
        "kernels": kernels.iter().map(kernel_json).collect::<Vec<_>>(),
        "capacities": capacities,
    });
    session.print("cpu", || text(listed, &kernels) + &format!("capacities of servers: {capacities}\n"), json)
}

/// Returns the name of an entry's state, and the details that are known.
fn state(entry: &EntryInfo) -> (&'static str, String) {
    match &entry.health {
        Health::Good(manifest) => ("good", format!("made because: {}", manifest.reason)),
        Health::Bad(reason) => ("damaged", reason.clone()),
        Health::SetAside(reason) => ("set aside", reason.clone()),
    }
}

fn entry_json(entry: &EntryInfo) -> Value {
    let (state, note) = state(entry);
    let plan = match &entry.health {
        Health::Good(manifest) => {
            json!({ "parts": manifest.parts.in_words(), "candidate": manifest.plan["candidate"] })
        }
        Health::Bad(_) | Health::SetAside(_) => Value::Null,
    };
    let report = report(entry);
    json!({
        "key": entry.name, "bytes": entry.bytes, "uses": entry.uses, "state": state, "note": note, "plan": plan,
        "model": report.as_ref().map(|report| &report.model_name),
        "inputs": report.as_ref().map(|report| &report.inputs),
        "idle_seconds": idle(entry).map(|idle| idle.as_secs()),
    })
}

/// Returns the measurements recorded with a valid entry.
fn report(entry: &EntryInfo) -> Option<Report> {
    match &entry.health {
        Health::Good(manifest) => Report::read(&manifest.plan).ok(),
        Health::Bad(_) | Health::SetAside(_) => None,
    }
}

fn kernel_json(kernel: &CachedKernel) -> Value {
    json!({ "name": kernel.name, "bytes": kernel.bytes, "state": if kernel.is_whole { "good" } else { "damaged" } })
}

fn text(listed: &[EntryInfo], kernels: &[CachedKernel]) -> String {
    let mut table = Table::new([
        ("entry", Align::Left),
        ("model", Align::Left),
        ("inputs", Align::Left),
        ("engine", Align::Left),
        ("bytes", Align::Right),
        ("uses", Align::Right),
        ("idle", Align::Right),
        ("state", Align::Left),
        ("note", Align::Left),
    ]);
    for entry in listed {
        let (state, note) = state(entry);
        let [model, inputs, engine] = match report(entry) {
            Some(report) => [report.model_name, InputShape::list(&report.inputs), report.candidate.to_string()],
            None => ["-"; 3].map(str::to_owned),
        };
        let name = entry.name.get(..12).unwrap_or(&entry.name).to_owned();
        let idle = idle(entry).map_or_else(|| "-".to_owned(), duration);
        let (bytes, uses, state) = (size::show(entry.bytes), entry.uses.to_string(), state.to_owned());
        table.push([name, model, inputs, engine, bytes, uses, idle, state, note]);
    }
    let bytes: u64 = listed.iter().map(|entry| entry.bytes).sum();
    let damaged = kernels.iter().filter(|kernel| !kernel.is_whole).count();
    let kernel_bytes: u64 = kernels.iter().map(|kernel| kernel.bytes).sum();
    let mut text = if listed.is_empty() { String::new() } else { table.text() };
    text += &format!("engines: {}, {}\n", listed.len(), size::show(bytes));
    text + &format!("kernels: {}, {}, {damaged} damaged\n", kernels.len(), size::show(kernel_bytes))
}

fn damaged(cache: &Cache, listed: &[EntryInfo]) -> Result<()> {
    let bad = listed.iter().filter_map(|entry| match &entry.health {
        Health::Bad(reason) => Some(format!("{}: {reason}", entry.name)),
        Health::Good(_) | Health::SetAside(_) => None,
    });
    let bad: Vec<String> = bad.collect();
    if bad.is_empty() {
        return Ok(());
    }
    let hint = match cache.note() {
        None => "they were set aside and are made again when needed; `melisma cache clear` removes them",
        Some(_) => {
            "they are never used, and stay where they are: the cache can only be read; set MELISMA_CACHE_DIR to one of your own"
        }
    };
    Err(Error::new(ErrorKind::Check, format!("damaged: {}", bad.join("; "))).with_hint(hint))
}

fn clear(session: &Session, cache: &Cache) -> Result<()> {
    let (engines, engine_bytes) = cache.clear()?;
    let (kernels, kernel_bytes) = cuda::clear_cache().map_err(|error| Error::io("compiled kernels", error))?;
    let bytes = engine_bytes + kernel_bytes;
    let folder = session.config.cache_dir.value.as_deref();
    let capacities = folder.map(CapacityCache::clear).transpose()?.unwrap_or(0);
    let json = json!({ "engines": engines, "kernels": kernels, "capacities": capacities, "bytes": bytes });
    let counts = [(engines, "engine"), (kernels, "kernel"), (capacities, "capacity")];
    let [engines, kernels, capacities] = counts.map(|(n, what)| count(n as u64, what));
    session.print("cpu", || format!("removed {engines}, {kernels} and {capacities}, {}\n", size::show(bytes)), json)
}

fn idle(entry: &EntryInfo) -> Option<Duration> {
    SystemTime::now().duration_since(entry.used?).ok()
}

fn duration(idle: Duration) -> String {
    match idle.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}min", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_in_the_largest_unit_that_has_two() {
        let idle = [0, 119, 120, 7199, 7200, 172_799, 172_800, 99 * 86_400 - 1];
        let texts = ["0s", "119s", "2min", "119min", "2h", "47h", "2d", "98d"];
        assert_eq!(idle.map(|seconds| duration(Duration::from_secs(seconds))), texts);
    }
}
