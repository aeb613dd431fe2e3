//! Finds where a signal is most like a given piece, by the normalised cross-correlation.

pub(super) use crate::audio::sinc::LANES;
use crate::audio::sinc::dot;

/// Interleaved samples to compare.
pub(super) struct Query<'a> {
    /// The piece to find: a multiple of [`LANES`] samples.
    pub(super) template: &'a [f32],
    /// Where to look for it, at least as long.
    pub(super) span: &'a [f32],
    pub(super) n_channels: usize,
    /// The answer if nothing is like the template, as in silence.
    pub(super) otherwise: usize,
}

/// A place in the span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Match {
    /// In frames.
    pub(super) offset: usize,
    /// The normalised correlation there, from 0 to 1.
    pub(super) likeness: f32,
}

/// Returns the offset with the largest positive correlation, the first of equal ones. NaN counts as
/// unlike.
pub(super) fn closest(query: Query) -> Match {
    let Query { template, span, n_channels, otherwise } = query;
    let len = template.len();
    let own = f64::from(dot(template, template));
    let mut best = Match { offset: otherwise, likeness: 0.0 };
    for offset in 0..=(span.len() - len) / n_channels {
        let there = &span[offset * n_channels..][..len];
        // Not a running sum of squares: what loud samples leave behind as rounding errors would decide
        // among quiet ones.
        let power = own * f64::from(dot(there, there));
        let likeness = (f64::from(dot(template, there)) / power.sqrt()).min(1.0) as f32;
        if likeness > best.likeness {
            best = Match { offset, likeness };
        }
    }
    best
}
