//! The form of lines of tokens.

use melisma::dataset::{LineFormat, Lines, Repeats};
use pyo3::prelude::*;

/// The form of lines, as Python names it.
#[derive(Debug, Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
pub struct LinesArgs {
    /// Whether lines hold the ids of Orpheus.
    orpheus: bool,
    drop_repeats: bool,
}

impl From<LinesArgs> for Lines {
    fn from(args: LinesArgs) -> Self {
        let format = if args.orpheus { LineFormat::Orpheus } else { LineFormat::Codes };
        let repeats = if args.drop_repeats { Repeats::Drop } else { Repeats::Keep };
        Self::default().with_format(format).with_repeats(repeats)
    }
}
