//! Spans as NVTX ranges, for NVIDIA's profilers.

use melisma_kernels::device::nvtx;

use super::RangeSink;

/// Emits ranges where the library is found; does nothing elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nvtx;

impl Nvtx {
    /// Whether ranges can be emitted at all.
    pub fn is_available() -> bool {
        nvtx::is_available()
    }
}

impl RangeSink for Nvtx {
    fn push(&self, name: &str) {
        nvtx::push(name);
    }

    fn pop(&self) {
        nvtx::pop();
    }
}
