//! The cuBLASLt handle, one per GPU, and its failures as our errors.

use super::bindings::cublaslt::{result as lt, sys};
use super::library::{Library, require};
use crate::{Error, ErrorKind, Result};

/// The library's handle.
#[derive(Debug)]
pub(crate) struct CublasLt(sys::cublasLtHandle_t);

// SAFETY: the library's handle may be used from any thread.
unsafe impl Send for CublasLt {}
// SAFETY: the library's handle may be used from any thread.
unsafe impl Sync for CublasLt {}

impl CublasLt {
    pub(super) fn new() -> Result<Self> {
        require(Library::CublasLt)?;
        lt::create_handle().map(Self).map_err(|error| cublaslt_failed("start", error))
    }

    pub(crate) fn handle(&self) -> sys::cublasLtHandle_t {
        self.0
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { lt::destroy_handle(self.0) };
    }
}

/// Returns the error for a failed library call that should have done `what`.
pub(crate) fn cublaslt_failed(what: &str, error: lt::CublasError) -> Error {
    let kind = match error.0 {
        sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => ErrorKind::Memory,
        sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => ErrorKind::Unsupported,
        _ => ErrorKind::Device,
    };
    Error::new(kind, format!("cuBLASLt could not {what}: {:?}", error.0))
}
