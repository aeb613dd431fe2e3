//! One error type for both libraries: branch on [`ErrorKind`], read the message, show the hint.
//!
//! # Why one type for both libraries?
//!
//! `melisma` only adds a place to a kernel's error, with `at`. Two types would mean a conversion at
//! every call and two sets of kinds for every front to map. There are no per-operation variants and
//! no diagnostics library: a front prints two lines.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::remedy::{self, Remedy};

/// A result with our [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The sort of failure; the only part that programs should branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed a wrong value.
    InvalidArgument,
    /// The output exists and may not be replaced.
    Exists,
    /// Another process holds the output.
    Busy,
    /// A valid request for something that this build or device cannot do.
    Unsupported,
    /// A file or stream contradicts its own format.
    Corrupt,
    /// A file or stream ends too early.
    Truncated,
    /// A format version that this build does not know.
    Version,
    /// A device is missing or failed.
    Device,
    /// A memory limit would be exceeded, or an allocation failed.
    Memory,
    /// An operating-system call failed.
    Io,
    /// A check or a tolerance failed.
    Check,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ErrorKind {
    /// Returns its name for programs, the same in JSON and Python: `invalid_argument`, `exists`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::Exists => "exists",
            Self::Busy => "busy",
            Self::Unsupported => "unsupported",
            Self::Corrupt => "corrupt",
            Self::Truncated => "truncated",
            Self::Version => "version",
            Self::Device => "device",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Check => "check",
        }
    }
}

/// What went wrong and where, with the known remedies.
pub struct Error {
    kind: ErrorKind,
    message: String,
    remedies: Vec<Remedy>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error of `kind` whose message names the value, the limit and the place.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedies: Vec::new(), source: None }
    }

    /// Reports a wrong value from the caller.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Reports a request this build or device cannot serve.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Reports a file or stream that contradicts its own format.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// Reports a file or stream that ends too early.
    pub fn truncated(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Truncated, message)
    }

    /// Reports a device that is missing or failed.
    pub fn device(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Device, message)
    }

    /// Creates the error of the operating system at `place` (usually a path).
    pub fn io(place: impl fmt::Display, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("{place}: {source}")).with_source(source)
    }

    /// Replaces the hints with `remedy`.
    #[must_use]
    #[doc(hidden)]
    pub fn with_hint(mut self, remedy: impl Into<Remedy>) -> Self {
        self.remedies = vec![remedy.into()];
        self
    }

    /// Adds another remedy.
    #[must_use]
    #[doc(hidden)]
    pub fn or_hint(mut self, remedy: impl Into<Remedy>) -> Self {
        self.remedies.push(remedy.into());
        self
    }

    /// Takes over the remedies of `other`.
    #[must_use]
    #[doc(hidden)]
    pub fn with_remedies_of(mut self, other: &Self) -> Self {
        self.remedies.clone_from(&other.remedies);
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Puts `place` and a colon before the message.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Returns the sort of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the operating-system error that caused it.
    pub fn io_source(&self) -> Option<&std::io::Error> {
        self.source.as_ref()?.downcast_ref()
    }

    /// Returns the known remedies, best first; `melisma::Remedy::of` gives them as the enum of
    /// `melisma`.
    #[doc(hidden)]
    pub fn remedies(&self) -> &[Remedy] {
        &self.remedies
    }

    /// Returns the remedies in words for callers of the library.
    pub fn hint(&self) -> Option<String> {
        self.hint_in(Remedy::to_string)
    }

    /// Returns the remedies in the words of a front.
    #[doc(hidden)]
    pub fn hint_in(&self, word: impl Fn(&Remedy) -> String) -> Option<String> {
        remedy::line(&self.remedies, word)
    }
}

impl fmt::Debug for Error {
    /// Returns the message and the remedies, as a `main` that returns an error prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}
