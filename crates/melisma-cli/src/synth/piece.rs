//! The piece that a preset makes: its style, seed and length.

use melisma::Result;
use melisma::synth::Style;

use crate::args::SynthArgs;

/// The length of a preset's piece without `--seconds`.
const DEFAULT_SECONDS: f64 = 60.0;

/// The preset, if one is named.
pub fn style(args: &SynthArgs) -> Result<Option<Style>> {
    args.score.strip_prefix("preset:").map(Style::named).transpose()
}

/// The seed of a preset's piece, as it was given.
pub fn seed_text(args: &SynthArgs) -> &str {
    args.seed.as_deref().unwrap_or("0")
}

/// How long a preset's piece is.
pub fn seconds(args: &SynthArgs) -> f64 {
    args.seconds.unwrap_or(DEFAULT_SECONDS)
}
