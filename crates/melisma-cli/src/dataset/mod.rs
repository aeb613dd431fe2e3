//! `melisma dataset`.

mod build;
mod report;

use std::path::{Path, PathBuf};

use melisma::Result;
use melisma::dataset::store::Store;
use melisma::dataset::{self, StoreKind};
use melisma::runtime::size;
use melisma::runtime::table::{Align, Table};
use serde_json::{Map, Value, json};

use crate::args::{DatasetArgs, DatasetCommand};
use crate::session::Session;

pub fn run(session: &Session, args: &DatasetArgs) -> Result<()> {
    let _span = tracing::info_span!("dataset").entered();
    match &args.command {
        DatasetCommand::Build(args) => build::run(session, args),
        DatasetCommand::Info { path } => info(session, path),
        DatasetCommand::Verify { path } => verify(session, path),
        DatasetCommand::Merge { shards, output, store } => merge(session, shards, output, store.as_deref()),
    }
}

fn info(session: &Session, path: &Path) -> Result<()> {
    let layout = Store::open(path)?.layout;
    let mut table = Table::new([("column", Align::Left), ("type", Align::Left), ("shape", Align::Left)]);
    let mut columns = Map::new();
    for column in &layout.columns {
        let shape: Vec<u64> =
            std::iter::once(layout.n_rows).chain(column.shape.iter().map(|&axis| axis as u64)).collect();
        let element = format!("{:?}", column.element).to_lowercase();
        table.push([column.name.clone(), element.clone(), format!("{shape:?}")]);
        columns.insert(column.name.clone(), json!({ "type": element, "shape": shape }));
    }
    let text = || {
        let line = |(name, value): (&String, &Value)| {
            format!("{name}: {}\n", value.as_str().map_or(value.to_string(), str::to_owned))
        };
        table.text() + &layout.attributes.iter().map(line).collect::<String>()
    };
    let json = json!({ "rows": layout.n_rows, "columns": columns, "attributes": layout.attributes });
    session.print(session.config.device.value, text, json)
}

fn verify(session: &Session, path: &Path) -> Result<()> {
    let verified = dataset::verify(path, session.config.threads.value.count())?;
    let text = || {
        format!(
            "{} rows, {}: {} zero-filled, {} missing, {} damaged\n",
            verified.rows,
            size::show(verified.bytes),
            verified.zero_filled,
            verified.pending,
            verified.damaged
        )
    };
    let json = json!({
        "rows": verified.rows, "bytes": verified.bytes, "zero_filled": verified.zero_filled,
        "pending": verified.pending, "damaged": verified.damaged, "first_damaged": verified.first_damaged,
    });
    session.print(session.config.device.value, text, json)?;
    verified.check().map_err(|error| error.at(path.display()))
}

fn merge(session: &Session, shards: &[PathBuf], output: &Path, store: Option<&str>) -> Result<()> {
    let kind = StoreKind::choose(store, output)?;
    let rows = dataset::merge(shards, output, kind, session.existing)?;
    let json = json!({ "shards": shards.len(), "rows": rows, "output": output.display().to_string() });
    session.print(session.config.device.value, || format!("{rows} rows of {} shards\n", shards.len()), json)
}
