//! Sharded models: every shard is packed beside its source, and a new index names the packed
//! shards.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use melisma::pack::{Index, packed_path};
use melisma::{Existing, Result, output, text};
use serde_json::json;

use super::file::{check, pack_file};
use super::index::{named, refuse, refuse_existing, sum, totals};
use super::resource::{Resources, length, print};
use super::show;
use crate::args::PackArgs;
use crate::dataset::watch;
use crate::session::Session;
use crate::terminal;

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
    if let Some(shard) = &args.shard {
        let (i, n) = watch::shard(Some(shard))?;
        let bound = |i: usize| index.shards.len() * i / n;
        return part(session, resources, args, (&index, bound(i)..bound(i + 1)));
    }
    let path = index.packed_path();
    let outputs = index.shards.iter().map(|(shard, _)| packed_path(index.beside(shard)));
    refuse_existing(session, outputs.chain([path.clone()]))?;
    let mut files = Vec::new();
    for (shard, _) in &index.shards {
        let source = index.beside(shard);
        let target = packed_path(&source);
        let (packed, infos) = pack_file(session, resources, args, [&source, &target])?;
        files.push(show::packed(&target, &packed, &infos));
    }
    index.write_packed(session.existing)?;
    let n = text::count(files.len() as u64, "file");
    let (ratio, json) = totals(&path, files);
    print(session, resources.device, format!("{}: {n}, {:.2} %, verified\n", path.display(), 100.0 * ratio), json)
}

/// Packs a range of the shards, except those that an earlier run packed. The run that finds all of
/// them packed writes the index; several may, with the same bytes.
fn part(
    session: &Session,
    resources: &Resources<'_>,
    args: &PackArgs,
    (index, range): (&Index, Range<usize>),
) -> Result<()> {
    let (mut files, mut n_kept) = (Vec::new(), 0);
    for (shard, _) in &index.shards[range] {
        let source = index.beside(shard);
        let target = packed_path(&source);
        if session.existing == Existing::Refuse && index.is_packed(shard) {
            n_kept += 1;
            continue;
        }
        let (packed, infos) = pack_file(session, resources, args, [&source, &target])?;
        keep_order(&source, &target).map_err(|error| output::failed(&target, error))?;
        files.push(show::packed(&target, &packed, &infos));
    }
    let is_complete = index.shards.iter().all(|(shard, _)| index.is_packed(shard));
    if is_complete {
        index.write_packed(Existing::Replace)?;
    }
    let path = index.packed_path();
    let n = text::count(files.len() as u64, "file");
    let (_, mut json) = totals(&path, files);
    json["files_kept"] = n_kept.into();
    json["complete"] = is_complete.into();
    let kept = if n_kept > 0 { format!(", {} packed already", text::count(n_kept, "file")) } else { String::new() };
    let rest = if is_complete { "the index is written" } else { "other parts are missing" };
    print(session, resources.device, format!("{}: {n}, verified{kept}; {rest}\n", path.display()), json)
}

/// Gives the target a time not before the source's, which a clock that is ahead may have written: the
/// packed file would look stale.
fn keep_order(source: &Path, target: &Path) -> io::Result<()> {
    let made = source.metadata()?.modified()?;
    if target.metadata()?.modified()? >= made {
        return Ok(());
    }
    File::options().write(true).open(target)?.set_modified(made)
}

fn test(session: &Session, resources: &Resources<'_>, index: &Index) -> Result<()> {
    let mut files = Vec::new();
    for (shard, file) in &index.shards {
        let path = index.beside(shard);
        let archive = resources.archive(file, &path, None)?;
        check(session, resources, &archive).map_err(|error| error.at(path.display()))?;
        files.push(named(show::tested(&archive, length(file))?, &path));
    }
    let text = format!(
        "{}: {}, whole, every hash is right\n",
        terminal::name(&index.path),
        text::count(files.len() as u64, "file")
    );
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
