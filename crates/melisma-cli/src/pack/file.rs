//! Packing and checking one file.

use std::path::Path;

use melisma::pack::{self, Archive, Converted, Options, Packed, ReadAt, TensorInfo, open};
use melisma::{Error, Result};

use super::resource::{Resources, bar};
use super::target::{Spool, at_input};
use crate::args::PackArgs;
use crate::session::Session;
use crate::terminal;

/// Packs `input` into `path`, and lists the content.
pub fn pack_file(
    session: &Session,
    resources: &Resources<'_>,
    args: &PackArgs,
    [input, path]: [&Path; 2],
) -> Result<(Packed, Vec<TensorInfo>)> {
    let file = open(input)?;
    let converted = match pack::is_checkpoint(&file) {
        true if args.rm => {
            return Err(Error::invalid(format!("{}: --rm does not work with PyTorch checkpoints", input.display()))
                .with_hint("`unpack` gives back its tensors as .safetensors, not the checkpoint; drop --rm"));
        }
        true => Some(Converted::read(&file).map_err(|error| error.at(input.display()))?),
        false => None,
    };
    if let Some(names) = converted.as_ref().map(Converted::left_out).filter(|names| !names.is_empty()) {
        session.say(&format!(
            "note: {}: left out, not tensors of the model: {}",
            terminal::name(input),
            terminal::one_line(&names.join(", "))
        ));
    }
    let source: &dyn ReadAt = converted.as_ref().map_or(&file, |converted| converted);
    let base = args.delta.as_deref().map(open).transpose()?;
    let tile_size = args.tile_size.as_deref().and_then(|size| size.parse().ok());
    let gpu_index = args.gpu_index.then_some(pack::SEGMENT);
    let mut options = Options::new(resources.budget).with_threads(resources.threads);
    options.tile_size = tile_size;
    options.gpu_index = gpu_index;
    options.base = base.as_ref().map(|base| base as _);
    let mut spool = Spool::create(session, path)?;
    let bar = bar(session, 2 * source.size()?);
    let packed = pack::pack(source, &mut spool.file, &options, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let packed = packed.map_err(|error| at_input(error, input, spool.file.path()))?;
    let reader = spool.file.reader()?;
    let infos = Archive::open(&reader, resources.budget)?.list()?;
    spool.finish()?;
    Ok((packed, infos))
}

/// Decodes all of `archive` and compares every hash.
pub fn check(session: &Session, resources: &Resources<'_>, archive: &Archive<'_>) -> Result<()> {
    let bar = bar(session, archive.source_len());
    let checked = archive.check(resources.threads, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    checked
}
