//! `melisma dataset merge`.

use melisma::dataset::{self, LineFormat, Lines, Merge, Missing, Repeats, StoreKind};
use melisma::text::count;
use melisma::{Error, Result};
use serde_json::json;

use super::{HOST, host_budget, report_memory};
use crate::args::MergeArgs;
use crate::session::Session;

pub fn run(session: &Session, args: &MergeArgs) -> Result<()> {
    let ((store, lines), budget) = (output(args)?, host_budget(session)?);
    let (shards, missing) = (&args.shards, if args.allow_missing { Missing::Allow } else { Missing::Refuse });
    let merged = dataset::merge(
        &Merge::new(shards, &args.output, store, &budget)
            .with_lines(lines)
            .with_existing(session.existing)
            .with_missing(missing)
            .with_threads(session.config.threads.value.count()),
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
        "shards": shards.len(), "rows": merged.rows, "output": args.output.display().to_string(),
        "missing_shards": merged.missing, "unnumbered_shards": merged.n_unnumbered,
    });
    let text = || format!("{} of {}\n", count(merged.rows, "row"), count(shards.len() as u64, "shard"));
    session.print(HOST, text, json)?;
    report_memory(session, &budget);
    Ok(())
}

/// Returns the format of the rows, and the form of lines if one is asked for.
fn output(args: &MergeArgs) -> Result<(StoreKind, Option<Lines>)> {
    let asked = match &args.format {
        Some(format) => Some(format!("--format {format}")),
        None => args.drop_repeats.then(|| "--drop-repeats".to_owned()),
    };
    let shown = args.output.display();
    if !Lines::is_name(&args.output) {
        return match asked {
            None => Ok((StoreKind::choose(args.store.as_deref(), &args.output)?, None)),
            Some(flag) => Err(Error::invalid(format!("{flag}: {shown} holds codes of every frame"))
                .with_hint("use it with an output that ends with .jsonl")),
        };
    }
    if let Some(store) = &args.store {
        return Err(Error::invalid(format!("--store {store}: {shown} is a file of lines"))
            .with_hint("leave it out, or use another suffix"));
    }
    let format = if args.format.as_deref() == Some("orpheus") { LineFormat::Orpheus } else { LineFormat::Codes };
    let repeats = if args.drop_repeats { Repeats::Drop } else { Repeats::Keep };
    Ok((StoreKind::Safetensors, asked.map(|_| Lines::default().with_format(format).with_repeats(repeats))))
}
