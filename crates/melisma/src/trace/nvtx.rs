//! Emits spans as NVTX ranges for NVIDIA's profilers.

use melisma_kernels::device::nvtx;

use super::RangeSink;

/// Emits ranges if the library is found; otherwise does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nvtx;

impl Nvtx {
    /// Returns whether ranges can be emitted.
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
