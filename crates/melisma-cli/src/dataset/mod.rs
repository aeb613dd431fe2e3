//! `melisma dataset`.

mod build;
mod plan;
pub mod report;
pub mod watch;

use std::path::{Path, PathBuf};

use melisma::Result;
use melisma::dataset::store::Store;
use melisma::dataset::{self, Lines, Merge, Missing, Origin, StoreKind};
use melisma::runtime::MemoryTracker;
use melisma::runtime::device::Device;
use melisma::runtime::memory::{self, Budget};
use melisma::text::table::{Align, Table};
use melisma::text::{count, size};
use serde_json::{Map, Value, json};

use crate::args::{DatasetArgs, DatasetCommand};
use crate::session::Session;
use crate::terminal;

/// The device reported by commands that only read and write files.
const HOST: &str = "cpu";

pub fn run(session: &Session, args: &DatasetArgs) -> Result<()> {
    let _span = tracing::info_span!("dataset").entered();
    match &args.command {
        DatasetCommand::Build(args) => build::run(session, args),
        DatasetCommand::Plan(args) => plan::run(session, args),
        DatasetCommand::Info { path } => info(session, path),
        DatasetCommand::Verify { path } => verify(session, path),
        DatasetCommand::Merge { shards, output, store, allow_missing } => {
            let missing = if *allow_missing { Missing::Allow } else { Missing::Refuse };
            merge(session, shards, output, store.as_deref(), missing)
        }
    }
}

fn info(session: &Session, path: &Path) -> Result<()> {
    if Lines::is_name(path) {
        return lines_info(session, path);
    }
    let layout = Store::open(path)?.layout;
    let mut table = Table::new([("column", Align::Left), ("type", Align::Left), ("shape", Align::Left)]);
    let mut columns = Map::new();
    for column in &layout.columns {
        let shape: Vec<u64> =
            std::iter::once(layout.len(column)).chain(column.shape.iter().map(|&axis| axis as u64)).collect();
        let element = format!("{:?}", column.element).to_lowercase();
        table.push([column.name.clone(), element.clone(), format!("{shape:?}")]);
        columns.insert(column.name.clone(), json!({ "type": element, "shape": shape }));
    }
    let text = || table.text() + &shown(&layout.attributes);
    let json = json!({ "rows": layout.n_rows, "columns": columns, "attributes": layout.attributes });
    session.print(HOST, text, json)
}

fn lines_info(session: &Session, path: &Path) -> Result<()> {
    let origin = Origin::open(path)?;
    let json = json!({
        "rows": origin.rows, "bytes": origin.bytes, "blake3": origin.blake3, "lines": origin.lines,
        "attributes": origin.attributes,
    });
    let text = || {
        let (rows, bytes) = (count(origin.rows, "row"), size::show(origin.bytes));
        format!("{rows}, {bytes}\nblake3: {}\n{}", origin.blake3, shown(&origin.attributes))
    };
    session.print(HOST, text, json)
}

/// Returns one attribute per line.
fn shown(attributes: &Map<String, Value>) -> String {
    let line = |(name, value): (&String, &Value)| {
        let line = format!("{name}: {}", value.as_str().map_or(value.to_string(), str::to_owned));
        terminal::one_line(&line) + "\n"
    };
    attributes.iter().map(line).collect()
}

/// Returns the budget of commands that use no device.
fn host_budget(session: &Session) -> Result<Budget> {
    Ok(memory::budget(session.config.memory_limit.value, &Device::cpu()?))
}

fn verify(session: &Session, path: &Path) -> Result<()> {
    let budget = host_budget(session)?;
    let verified = dataset::verify(path, session.config.threads.value.count(), &budget)?;
    if !verified.unhashed.is_empty() {
        let columns = verified.unhashed.join(", ");
        session.say(&format!("note: {}: its format records no hash of {columns}", terminal::name(path)));
    }
    let text = || {
        format!(
            "{}, {}: {} zero-filled, {} missing, {} damaged\n",
            count(verified.rows, "row"),
            size::show(verified.bytes),
            verified.zero_filled,
            verified.pending,
            verified.damaged
        )
    };
    let json = json!({
        "rows": verified.rows, "bytes": verified.bytes, "zero_filled": verified.zero_filled,
        "pending": verified.pending, "damaged": verified.damaged, "first_damaged": verified.first_damaged,
        "plan_matches": verified.plan_matches, "columns_without_hash": verified.unhashed,
    });
    session.print(HOST, text, json)?;
    report_memory(session, &budget);
    verified.check().map_err(|error| error.at(path.display()))
}

fn merge(session: &Session, shards: &[PathBuf], output: &Path, store: Option<&str>, missing: Missing) -> Result<()> {
    let (store, budget) = (StoreKind::choose(store, output)?, host_budget(session)?);
    let (existing, threads) = (session.existing, session.config.threads.value.count());
    let merged = dataset::merge(
        &Merge::new(shards, output, store, &budget).with_existing(existing).with_missing(missing).with_threads(threads),
    )?;
    let is_are = |n: usize| if n == 1 { "is" } else { "are" };
    if !merged.missing.is_empty() {
        let n = merged.missing.len();
        session.say(&format!("note: {} {} missing: {:?}", count(n as u64, "shard"), is_are(n), merged.missing));
    }
    if merged.n_unnumbered > 0 {
        let n = count(merged.n_unnumbered as u64, "dataset");
        session.say(&format!("note: {n} without a shard number; whether all shards are there is not known"));
    }
    let json = json!({
        "shards": shards.len(), "rows": merged.rows, "output": output.display().to_string(),
        "missing_shards": merged.missing, "unnumbered_shards": merged.n_unnumbered,
    });
    let text = || format!("{} of {}\n", count(merged.rows, "row"), count(shards.len() as u64, "shard"));
    session.print(HOST, text, json)?;
    report_memory(session, &budget);
    Ok(())
}

/// Prints memory use with `--verbose`.
fn report_memory(session: &Session, budget: &Budget) {
    if session.settings.verbose.value {
        session.say(MemoryTracker::new(budget.clone()).summary().to_string().trim_end());
    }
}
