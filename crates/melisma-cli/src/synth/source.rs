//! The score: a file, or a piece of a preset.

use std::path::Path;

use melisma::synth::{Score, Style, compose, seed};
use melisma::{Error, Result};

use crate::args::SynthArgs;
use crate::input::{Input, is_pipe};

/// The length of a preset's piece without `--seconds`.
const DEFAULT_SECONDS: f64 = 60.0;
/// The largest file; the readers have limits of their own.
const MAX_BYTES: u64 = 512 << 20;

pub fn open(args: &SynthArgs) -> Result<Score> {
    if let Some(style) = style(args)? {
        return compose(&style, seed(&args.seed), seconds(args));
    }
    let path = Path::new(&args.score);
    if is_pipe(path) {
        let bytes = Input::open(path)?.read_all(MAX_BYTES)?;
        let is_midi = bytes.starts_with(b"MThd") || bytes.starts_with(b"RIFF");
        let read = if is_midi { Score::from_midi } else { Score::from_json };
        return read(&bytes).map_err(|error| error.at("stdin"));
    }
    let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
    let read = match suffix.as_deref() {
        Some("mid" | "midi" | "smf" | "rmi") => Score::from_midi,
        Some("json") => Score::from_json,
        _ => {
            return Err(Error::invalid(format!("{}: no score that is known", args.score)).with_hint(
                "name a .mid or .json file, - for a pipe of one, or preset:focus, preset:meditation, preset:sleep or preset:bright",
            ));
        }
    };
    let input = Input::open(path)?;
    let bytes = input.read_all(MAX_BYTES)?;
    read(&bytes).map_err(|error| error.at(&args.score))
}

/// The preset, if one is named.
pub fn style(args: &SynthArgs) -> Result<Option<Style>> {
    args.score.strip_prefix("preset:").map(Style::named).transpose()
}

/// How long a preset's piece is.
pub fn seconds(args: &SynthArgs) -> f64 {
    args.seconds.unwrap_or(DEFAULT_SECONDS)
}
