//! `melisma dataset verify --repair`.

use std::path::Path;
use std::sync::Arc;

use melisma::dataset::store::Store;
use melisma::dataset::{Feature, Fields, Lines, Metadata, Options, Origin, Repaired, Request, Search, Texts, Tokens};
use melisma::{Error, Result};
use serde_json::Value;

use crate::args::RepairArgs;
use crate::codec::Codec;
use crate::session::Session;

/// Rebuilds the damaged rows of the dataset at `path`.
pub fn run(session: &Session, path: &Path, args: &RepairArgs) -> Result<Repaired> {
    let context = session.context()?;
    let inputs = Search::new(&args.from).with_list(args.list.clone()).with_root(args.root.clone()).run()?;
    let layout = match Lines::is_name(path) {
        // The request refuses them.
        true => Origin::open(path)?.attributes,
        false => Store::open(path)?.layout.attributes,
    };
    let text = |name: &str| layout.get(name).and_then(Value::as_str);
    let (config, at) = (text("config").unwrap_or_default(), |error: Error| error.at(path.display()));
    let feature: Feature = match text("melisma.model") {
        None => Options::parse(config).map_err(at)?.into(),
        Some(made) => {
            let codec = Codec::open_in(context, &args.model)?;
            if made != codec.model.hash() {
                let message =
                    format!("{}: its codes are of the model {made:.32}, not of {}", path.display(), args.model);
                return Err(Error::invalid(message).with_hint("name that model with --model"));
            }
            let kept = text("melisma.kept").into_iter().flat_map(|names| names.split(',').map(str::to_owned)).collect();
            let tokens = Tokens::new(Arc::clone(&codec.model)).with_texts(texts(args, kept)?);
            tokens.like(config).map_err(at)?.into()
        }
    };
    Request::new_in(context, &inputs, path, feature).with_threads(session.config.threads.value.count()).repair()
}

/// Returns where the texts are; the corpus knows which columns of the table were kept.
fn texts(args: &RepairArgs, kept: Vec<String>) -> Result<Texts> {
    let (Some(path), Some(column)) = (&args.metadata, &args.text_column) else { return Ok(Texts::Beside) };
    let kept = kept.into_iter().filter(|name| args.speaker_column.is_none() || name != "source").collect();
    let fields = Fields::new(column)
        .with_path(args.path_column.clone())
        .with_kept(kept)
        .with_speaker(args.speaker_column.clone());
    Ok(Texts::Table(Arc::new(Metadata::open_fields(path, &fields)?)))
}
