//! Size and precision of an engine.

use melisma_kernels::layer::step::Rounding;

use crate::{Error, Result};

/// The most streams of an engine, so that no size overflows.
pub(super) const MAX_STREAMS: usize = 1 << 16;

/// The size of an [`Engine`](super::Engine), and how exact it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Streams at one time, at most 65536.
    pub max_streams: usize,
    /// How a GPU may round the factors of products. Samples depend on it, but on batch and steps they never do.
    pub rounding: Rounding,
}

impl EngineOptions {
    /// Allows `max_streams` streams at one time, without rounding.
    pub fn new(max_streams: usize) -> Self {
        Self { max_streams, rounding: Rounding::Off }
    }

    /// Sets how a GPU may round the factors of products.
    #[must_use]
    pub fn with_rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }
}

/// Checks the number of streams of an engine.
///
/// # Errors
/// `InvalidArgument` for more than [`MAX_STREAMS`] streams.
pub(super) fn check_streams(max_streams: usize) -> Result<()> {
    match max_streams {
        0..=MAX_STREAMS => Ok(()),
        n => Err(Error::invalid(format!("an engine serves at most {MAX_STREAMS} streams, not {n}"))),
    }
}
