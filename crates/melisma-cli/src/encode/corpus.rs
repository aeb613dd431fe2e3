//! `melisma encode` of many files: a corpus of tokens.

use std::ffi::OsStr;
use std::sync::Arc;

use melisma::dataset::{
    Check, Fields, Inputs, Lengths, LineFormat, Lines, Metadata, Repeats, Request, StoreKind, Texts, Tokens, Untexted,
};
use melisma::runtime::device::Device;
use melisma::runtime::memory::Needed;
use melisma::snac::Config;
use melisma::snac::tokens::Format;
use melisma::{Error, ErrorKind, Result};

use crate::args::EncodeArgs;
use crate::codec::{Codec, loaded_bytes};
use crate::dataset::{report, watch};
use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal;

pub fn run(session: &Session, args: &EncodeArgs) -> Result<()> {
    let _span = tracing::info_span!("encode corpus").entered();
    let (store, lines) = output(args)?;
    if args.chunk.is_some() {
        return Err(Error::invalid("--chunk is for a stream of one file").with_hint("leave it out"));
    }
    let context = session.context()?;
    if let Ok(config) = Config::open(&args.model) {
        // The rest depends on the files.
        session.require(
            context.device(),
            "encoding with this model",
            required_memory(args, &config, context.device()),
        )?;
    }
    let codec = Codec::open_in(context, &args.model)?;
    if lines.is_some_and(|lines| lines.format == LineFormat::Orpheus) {
        melisma::snac::tokens::check_orpheus(codec.model.config())?;
    }
    let inputs = watch::find(session, &args.inputs, &args.corpus.files)?;
    let (shard, n_shards) = watch::shard(args.corpus.shard.as_deref())?;
    let mut request = Request::new_in(context, &inputs, &args.output, tokens(args, &codec)?)
        .with_shard(shard, n_shards)
        .with_store(store)
        .with_existing(session.existing)
        .with_max_failures(if args.corpus.on_error == "fail" { Some(0) } else { args.corpus.files.max_failures })
        .with_threads(session.config.threads.value.count());
    if let Some(lines) = lines {
        request = request.with_lines(lines);
    }
    codec.warn_of_builtin(session, "this corpus has codes", "name it with --model");
    let outcome = watch::build(session, &request)?;
    watch::report_failures(session, &outcome, &args.output);
    let mut json = report::tokens_json(&outcome, &inputs.skipped);
    json["model"] = serde_json::json!({ "source": args.model, "hash": codec.model.hash() });
    session.print(context.device(), || report::tokens_text(&outcome), json)?;
    match outcome.below_limit {
        0 => Ok(()),
        n => Err(Error::new(ErrorKind::Check, format!("{n} of {} files are below --min-snr", outcome.segments))
            .with_hint("they are listed; encode them with a larger model, or lower the limit")),
    }
}

/// Returns the memory for the weights, and for one thread that encodes one file.
fn required_memory(args: &EncodeArgs, config: &Config, device: &Device) -> Needed {
    let tokens = Tokens::needed(config, device, check(args));
    Needed { host: tokens.host + loaded_bytes(&args.model), ..tokens }
}

fn tokens(args: &EncodeArgs, codec: &Codec) -> Result<Tokens> {
    let corpus = &args.corpus;
    let texts = match (&corpus.metadata, &corpus.text_column) {
        (Some(path), Some(column)) => {
            let fields = Fields::new(column)
                .with_path(corpus.path_column.clone())
                .with_kept(corpus.keep_column.clone())
                .with_speaker(corpus.speaker_column.clone());
            Texts::Table(Arc::new(Metadata::open_fields(path, &fields)?))
        }
        _ => Texts::Beside,
    };
    let untexted = if corpus.require_text { Untexted::LeaveOut } else { Untexted::Keep };
    Ok(Tokens::new(Arc::clone(&codec.model))
        .with_channel(args.channel)
        .with_texts(texts)
        .with_check(check(args))
        .with_lengths(Lengths::new(corpus.files.min_seconds, corpus.files.max_seconds)?)
        .with_untexted(untexted)
        .with_preparation(corpus.files.preparation()?))
}

fn check(args: &EncodeArgs) -> Check {
    match args.verify_audio {
        true => Check::Measure { min_snr_db: args.min_snr },
        false => Check::None,
    }
}

/// Returns why there is a corpus where one text file was named, or nothing.
fn of_list(args: &EncodeArgs) -> String {
    match &args.inputs[..] {
        [list] if Inputs::is_list(list) => {
            format!("{} is read as a list of audio files, whose tokens are a corpus: ", terminal::name(list))
        }
        _ => String::new(),
    }
}

/// Returns the format of the rows, and of the lines if the output is text.
fn output(args: &EncodeArgs) -> Result<(StoreKind, Option<Lines>)> {
    let format = Format::from_name(&args.format).unwrap_or_default();
    if is_pipe(&args.output) {
        return Err(Error::invalid("-o -: a corpus cannot go to a pipe")
            .with_hint("name a .safetensors or .jsonl file, or a folder"));
    }
    if !Lines::is_name(&args.output) {
        let refused = match format {
            Format::Orpheus | Format::Ids => Some(format!("--format {}", args.format)),
            _ => args.corpus.drop_repeats.then(|| "--drop-repeats".to_owned()),
        };
        if let Some(flag) = refused {
            let message = format!("{flag}: {} holds codes of every frame", args.output.display());
            return Err(Error::invalid(message).with_hint("use it with an output that ends with .jsonl"));
        }
        let store = StoreKind::choose(None, &args.output).map_err(|error| {
            let message = match args.output.extension().and_then(OsStr::to_str) {
                Some(suffix @ ("txt" | "json")) => {
                    format!(
                        "{}: `.{suffix}` holds the tokens of one audio file; these become a corpus",
                        args.output.display()
                    )
                }
                _ => error.to_string(),
            };
            Error::new(error.kind(), message).with_hint(format!(
                "{}use a name that ends with .safetensors, .h5 or .jsonl, or one without a suffix for a folder",
                of_list(args)
            ))
        })?;
        return Ok((store, None));
    }
    let format = match format {
        Format::Auto | Format::Codes => LineFormat::Codes,
        Format::Orpheus => LineFormat::Orpheus,
        Format::Ids => {
            return Err(Error::invalid("--format ids: lines of a corpus hold codes, or the ids of Orpheus")
                .with_hint("use --format orpheus"));
        }
    };
    let repeats = if args.corpus.drop_repeats { Repeats::Drop } else { Repeats::Keep };
    Ok((StoreKind::Safetensors, Some(Lines::default().with_format(format).with_repeats(repeats))))
}
