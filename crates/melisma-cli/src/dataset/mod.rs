//! `melisma dataset`.

mod build;
mod merge;
mod plan;
mod repair;
pub mod report;
pub mod watch;

use std::path::Path;

use melisma::Result;
use melisma::dataset::store::Store;
use melisma::dataset::{self, Lines, Origin};
use melisma::runtime::MemoryTracker;
use melisma::runtime::device::Device;
use melisma::runtime::memory::{self, Budget};
use melisma::text::table::{Align, Table};
use melisma::text::{count, size};
use serde_json::{Map, Value, json};

use crate::args::{DatasetArgs, DatasetCommand, RepairArgs};
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
        DatasetCommand::Verify { path, repair } => verify(session, path, repair),
        DatasetCommand::Merge(args) => merge::run(session, args),
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
    let text = || table.text() + &attribute_lines(&layout.attributes);
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
        format!("{rows}, {bytes}\nblake3: {}\n{}", origin.blake3, attribute_lines(&origin.attributes))
    };
    session.print(HOST, text, json)
}

/// Returns the attributes, one per line.
fn attribute_lines(attributes: &Map<String, Value>) -> String {
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

fn verify(session: &Session, path: &Path, repair: &RepairArgs) -> Result<()> {
    let (budget, verified, repaired) = match repair.repair {
        false => {
            let budget = host_budget(session)?;
            let verified = dataset::verify(path, session.config.threads.value.count(), &budget)?;
            (budget, verified, None)
        }
        true => {
            let repaired = repair::run(session, path, repair)?;
            (session.context()?.budget().clone(), repaired.verified, Some(repaired.rows))
        }
    };
    if !verified.unhashed.is_empty() {
        let columns = verified.unhashed.join(", ");
        session.say(&format!("note: {}: its format records no hash of {columns}", terminal::name(path)));
    }
    if let Some(origin) = &verified.missing_origin {
        let origin = terminal::name(origin);
        session
            .say(&format!("note: {origin} is missing: each line was checked by itself, not against what was written"));
    }
    let text = || {
        let made = repaired.as_ref().map(|rows| format!("{} rebuilt; ", count(rows.len() as u64, "row")));
        format!(
            "{}{}, {}: {} zero-filled, {} missing, {} damaged\n",
            made.unwrap_or_default(),
            count(verified.rows, "row"),
            size::show(verified.bytes),
            verified.zero_filled,
            verified.pending,
            verified.damaged
        )
    };
    let mut json = json!({
        "rows": verified.rows, "bytes": verified.bytes, "zero_filled": verified.zero_filled,
        "pending": verified.pending, "damaged": verified.damaged, "first_damaged": verified.first_damaged,
        "first_damaged_files": verified.first_files,
        "plan_matches": verified.plan_matches, "columns_without_hash": verified.unhashed,
        "fault": verified.fault, "missing_origin": verified.missing_origin.as_ref().map(|path| path.display().to_string()),
    });
    if let Some(rows) = &repaired {
        json["rebuilt"] = json!(rows);
    }
    match repaired {
        None => session.print(HOST, text, json)?,
        Some(_) => session.print(session.context()?.device(), text, json)?,
    }
    report_memory(session, &budget);
    verified.check().map_err(|error| error.at(path.display()))
}

/// Prints memory use with `--verbose`.
fn report_memory(session: &Session, budget: &Budget) {
    if session.settings.verbose.value {
        session.say(MemoryTracker::new(budget.clone()).summary().to_string().trim_end());
    }
}
