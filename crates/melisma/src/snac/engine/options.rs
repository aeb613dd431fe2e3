//! Size and precision of an engine.

use melisma_kernels::layer::step::Rounding;

/// The size of an [`Engine`](super::Engine), and how exact it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// Streams at one time.
    pub max_streams: usize,
    /// How a GPU may round the factors of products. Samples depend on it, but on batch and steps they never do.
    pub rounding: Rounding,
}

impl From<usize> for EngineOptions {
    fn from(max_streams: usize) -> Self {
        Self { max_streams, rounding: Rounding::Off }
    }
}
