//! Sharded models: every shard is packed beside its source, and a new index names the packed
//! shards.

use std::path::{Path, PathBuf};

use melisma::Result;
use serde_json::json;

use super::file::{check, default_output, pack_file};
use super::index::{Index, count, named, refuse, refuse_existing, sum, totals};
use super::resource::{Resources, length, print};
use super::show;
use crate::args::PackArgs;
use crate::session::Session;

/// Packs, tests or lists every shard of the index.
pub fn pack(session: &Session, resources: &Resources<'_>, args: &PackArgs) -> Result<()> {
    refuse([("-o", args.output.is_some()), ("--rm", args.rm), ("--delta", args.delta.is_some())])?;
    let index = Index::open(&args.input)?;
    if args.list {
        return list(session, resources, &index);
    }
    if args.test {
        return test(session, resources, &index);
    }
    let path = packed_index(&args.input);
    let packed_name = |shard: &str| Ok(default_output(Path::new(shard)).to_string_lossy().into_owned());
    let outputs = index.shards.iter().map(|(shard, _)| default_output(&index.beside(shard)));
    refuse_existing(session, outputs.chain([path.clone()]))?;
    let mut files = Vec::new();
    for (shard, _) in &index.shards {
        let source = index.beside(shard);
        let target = default_output(&source);
        let (packed, infos) = pack_file(session, resources, args, [&source, &target])?;
        files.push(show::packed(&target, &packed, &infos));
    }
    index.write(&path, packed_name, session.existing)?;
    let n = count(files.len());
    let (ratio, json) = totals(&path, files);
    print(session, resources.device, format!("{}: {n}, {:.2} %, verified\n", path.display(), 100.0 * ratio), json)
}

fn test(session: &Session, resources: &Resources<'_>, index: &Index) -> Result<()> {
    let mut files = Vec::new();
    for (shard, file) in &index.shards {
        let path = index.beside(shard);
        let archive = resources.archive(file, &path, None)?;
        check(session, resources, &archive).map_err(|error| error.at(path.display()))?;
        files.push(named(show::tested(&archive, length(file))?, &path));
    }
    let text = format!("{}: {}, whole, every hash is right\n", index.path.display(), count(files.len()));
    print(session, resources.device, text, totals(&index.path, files).1)
}

fn list(session: &Session, resources: &Resources<'_>, index: &Index) -> Result<()> {
    let (mut files, mut infos) = (Vec::new(), Vec::new());
    for (shard, file) in &index.shards {
        let path = index.beside(shard);
        let archive = resources.archive(file, &path, None)?;
        infos.push(archive.list()?);
        files.push(named(show::listed(&archive, length(file))?, &path));
    }
    let [bytes_in, bytes_out] = ["bytes_in", "bytes_out"].map(|key| sum(&files, key));
    let json = json!({
        "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": show::ratio(bytes_out, bytes_in), "verified": false,
        "files": files,
    });
    session.print(resources.device, || show::table(&infos, [bytes_in, bytes_out]), json)
}

fn packed_index(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".index.json").unwrap_or(&name);
    let stem = stem.strip_suffix(".safetensors").or_else(|| stem.strip_suffix(".bin")).unwrap_or(stem);
    path.with_file_name(format!("{stem}.packed.safetensors.index.json"))
}
