//! `melisma encode`: audio to tokens. One audio file or pipe is a clip; anything else is a corpus.

mod clip;
mod corpus;
mod flow;
mod report;
mod round_trip;
mod sink;
mod token_format;

use std::path::PathBuf;

use melisma::Result;
use melisma::dataset::{Inputs, Lines};

use crate::args::EncodeArgs;
use crate::input::is_pipe;
use crate::session::Session;
pub use token_format::TokenFormat;

pub fn run(session: &Session, args: &EncodeArgs) -> Result<()> {
    let _span = tracing::info_span!("encode").entered();
    match clip(args) {
        Some(input) => clip::run(session, args, input),
        None => corpus::run(session, args),
    }
}

/// Returns the input if it is one file or pipe of audio, and nothing asks for a corpus.
fn clip(args: &EncodeArgs) -> Option<&PathBuf> {
    let is_corpus = args.corpus.is_used() || Lines::is_name(&args.output);
    match &args.inputs[..] {
        _ if args.corpus.files.list.is_some() => None,
        [input] if is_pipe(input) || !(is_corpus || input.is_dir() || Inputs::is_list(input)) => Some(input),
        _ => None,
    }
}
