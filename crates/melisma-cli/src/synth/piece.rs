//! The piece that a preset generates: its style, seed and length.

use melisma::Result;
use melisma::synth::Style;

use crate::args::SynthArgs;

/// The length of a generated piece without `--seconds`.
const DEFAULT_SECONDS: f64 = 60.0;

/// Returns the preset, if one is named.
pub fn style(args: &SynthArgs) -> Result<Option<Style>> {
    args.score.strip_prefix("preset:").map(Style::named).transpose()
}

/// Returns the seed of a generated piece, as given.
pub fn seed_text(args: &SynthArgs) -> &str {
    args.seed.as_deref().unwrap_or("0")
}

/// Returns the length of a generated piece.
pub fn seconds(args: &SynthArgs) -> f64 {
    args.seconds.unwrap_or(DEFAULT_SECONDS)
}
