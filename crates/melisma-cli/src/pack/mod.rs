//! `melisma pack`, which follows zstd's conventions: the source stays unless `--rm` is given.

mod file;
pub mod index;
pub mod resource;
mod shards;
mod show;
pub mod target;

use std::path::Path;

use melisma::pack::{open, packed_path};
use melisma::{Error, ErrorKind, Result};

use crate::args::PackArgs;
use crate::decode::refuse_mixing;
use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal::{self, is_closed_pipe};
use file::{check, pack_file};
use resource::{Resources, length, print};

pub fn run(session: &Session, args: &PackArgs) -> Result<()> {
    let _span = tracing::info_span!("pack").entered();
    let resources = if args.test { Resources::of(session)? } else { Resources::of_cpu(session)? };
    if index::is_index(&args.input) {
        return shards::pack(session, &resources, args);
    }
    if args.shard.is_some() {
        return Err(Error::invalid(format!("{}: --shard needs an index of shards", args.input.display()))
            .with_hint("name the .index.json of a sharded model"));
    }
    if args.test {
        return test(session, &resources, args);
    }
    if args.list {
        return list(session, &resources, &args.input);
    }
    let path = args.output.clone().unwrap_or_else(|| packed_path(&args.input));
    target::check(&path, args.rm.then_some("--rm"))?;
    refuse_mixing(session, &path)?;
    let source_len = std::fs::metadata(&args.input).map_or(0, |data| data.len());
    let (packed, infos) = match pack_file(session, &resources, args, [&args.input, &path]) {
        Err(error) if is_pipe(&path) && is_closed_pipe(&error) => return session.lost_reader(),
        packed => packed?,
    };
    if args.rm {
        std::fs::remove_file(&args.input).map_err(|error| Error::io(args.input.display(), error))?;
    }
    let text = show::packed_line(&path, &packed, source_len);
    if is_pipe(&path) {
        session.say(text.trim_end());
        return Ok(());
    }
    print(session, resources.device, text, show::packed(&path, &packed, &infos))
}

fn test(session: &Session, resources: &Resources<'_>, args: &PackArgs) -> Result<()> {
    let file = open(&args.input)?;
    let base = args.delta.as_deref().map(open).transpose()?;
    let archive = resources.archive(&file, &args.input, base.as_ref())?;
    check(session, resources, &archive).map_err(|error| failed_check(error).at(args.input.display()))?;
    let text = format!("{}: whole, every hash is right\n", terminal::name(&args.input));
    print(session, resources.device, text, show::tested(&archive, length(&file))?)
}

/// Reports damage as a failed check, not as rejected input: damage is what a test looks for.
fn failed_check(error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Truncated) {
        return error;
    }
    Error::new(ErrorKind::Check, error.to_string()).with_remedies_of(&error)
}

fn list(session: &Session, resources: &Resources<'_>, path: &Path) -> Result<()> {
    let file = open(path)?;
    let archive = resources.archive(&file, path, None)?;
    let infos = archive.list()?;
    let bytes = [archive.source_len(), length(&file)];
    session.print(resources.device, || show::table(&[infos], bytes), show::listed(&archive, length(&file))?)
}
