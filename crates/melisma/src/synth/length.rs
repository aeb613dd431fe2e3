//! The length of a piece.

/// How long a piece is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Length {
    /// Until everything is silent.
    Whole,
    /// A number of samples; sound that goes on is faded out before the end.
    Samples(u64),
}
