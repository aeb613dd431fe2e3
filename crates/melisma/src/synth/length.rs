//! The length of a piece.

/// How long a piece is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Until everything has faded away.
    Whole,
    /// So many samples; what still sounds is faded out before.
    Samples(u64),
}
