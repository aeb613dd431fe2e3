//! Rows of a dataset.

use crate::{Error, ErrorKind};

/// One segment of one file, or the tokens of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The file's index in the plan.
    pub file: u32,
    /// The first sample of a segment, at the configured rate. Tokens: the row's first frame in
    /// `codes`.
    pub start: u64,
    /// Samples that the file provides; the rest of the row is silence.
    pub n_samples: u64,
    /// Frames that lie on these samples. Tokens: all frames of the row.
    pub valid_frames: u32,
}

impl Row {
    /// Returns the frame after a row of tokens.
    pub(super) fn next_frame(&self) -> u64 {
        self.start + u64::from(self.valid_frames)
    }
}

/// The column `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Status {
    /// The row is valid.
    Ok = 0,
    /// The system could not read the file.
    Unreadable = 1,
    /// The file ends too early.
    Truncated = 2,
    /// The file contradicts itself, or contains samples that are NaN or infinite.
    Corrupt = 3,
    /// The file's codec is unknown.
    Unsupported = 4,
    /// A value does not fit the element type.
    Overflow = 5,
    /// The row has not been computed yet.
    Pending = 255,
}

impl Status {
    /// Returns the status of a row that failed with `error`.
    pub fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Truncated => Self::Truncated,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Unsupported | ErrorKind::Version => Self::Unsupported,
            ErrorKind::Check => Self::Overflow,
            _ => Self::Unreadable,
        }
    }
}
