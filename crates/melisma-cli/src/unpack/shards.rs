//! Sharded models: every shard is unpacked beside its source, and a new index names the results.

use std::path::{Path, PathBuf};

use melisma::pack::Index;
use melisma::{Error, Remedy, Result, text};
use serde_json::json;

use super::file::{decode, default_output, one};
use crate::args::UnpackArgs;
use crate::pack::index::{named, refuse, refuse_existing, totals};
use crate::pack::resource::{Resources, print};
use crate::session::Session;
use crate::terminal;

/// Unpacks every shard of a packed index, or one tensor from its shard.
pub fn unpack(session: &Session, resources: &Resources<'_>, args: &UnpackArgs) -> Result<()> {
    let has_part = args.tensor.is_some();
    refuse([("-o", args.output.is_some() && !has_part), ("--rm", args.rm), ("--delta", args.delta.is_some())])?;
    let index = Index::open(&args.input)?;
    if let (Some(name), Some(output)) = (&args.tensor, &args.output) {
        let shard = index.map.get(name).ok_or_else(|| {
            Error::invalid(format!("{}: unknown tensor `{name}`", args.input.display())).with_hint(Remedy::ListTensors)
        })?;
        return one(session, resources, args, [&index.beside(shard), output]);
    }
    let path = default_output(&args.input)?;
    let unpacked_name = |shard: &str| Ok(default_output(Path::new(shard))?.to_string_lossy().into_owned());
    let outputs = index.shards.iter().map(|(shard, _)| default_output(&index.beside(shard)));
    let outputs: Vec<PathBuf> = outputs.collect::<Result<_>>()?;
    refuse_existing(session, outputs.iter().cloned().chain([path.clone()]))?;
    let shards = index.shards.iter().zip(&outputs);
    let decoded = shards.map(|((shard, _), output)| decode(session, resources, args, [&index.beside(shard), output]));
    // Outputs get their names only after all shards are decoded, so a damaged shard leaves no
    // output.
    let decoded: Vec<_> = decoded.collect::<Result<_>>()?;
    let mut files = Vec::new();
    for ((bytes_in, target), output) in decoded.into_iter().zip(&outputs) {
        let bytes_out = target.finish()?;
        files.push(named(json!({ "bytes_in": bytes_in, "bytes_out": bytes_out, "verified": true }), output));
    }
    index.write(&path, unpacked_name, session.existing)?;
    let text = format!("{}: {}, every hash is right\n", terminal::name(&path), text::count(files.len() as u64, "file"));
    print(session, resources.device, text, totals(&path, files).1)
}
