//! The piece that a preset generates: its style, seed and length.

use melisma::synth::Style;
use melisma::{Error, Result};

use crate::args::SynthArgs;

/// The length of a generated piece without `--seconds`.
const DEFAULT_SECONDS: f64 = 60.0;

/// Returns the preset with its changes, if one is named.
pub fn style(args: &SynthArgs) -> Result<Option<Style>> {
    let variation = args.variation.read()?;
    match (args.score().strip_prefix("preset:"), variation.first()) {
        (Some(name), _) => Ok(Some(variation.apply(Style::find(name)?))),
        (None, None) => Ok(None),
        (None, Some(name)) => Err(Error::invalid(format!("{}: --{name} needs a preset", args.score()))
            .with_hint(format!("a score file has its notes already; leave --{name} out"))),
    }
}

/// Returns the seed of a generated piece, as given.
pub fn seed_text(args: &SynthArgs) -> &str {
    args.seed.as_deref().unwrap_or("0")
}

/// Returns the length of a generated piece.
pub fn seconds(args: &SynthArgs) -> f64 {
    args.seconds.unwrap_or(DEFAULT_SECONDS)
}
