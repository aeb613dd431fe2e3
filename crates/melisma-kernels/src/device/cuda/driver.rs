//! The driver's version, and its failures as our errors.

use super::bindings::driver::{result, sys};
use crate::{Error, ErrorKind, Remedy, Result};

/// Returns the error for a failed driver call that should have done `what`.
pub(crate) fn failed(what: &str, error: result::DriverError) -> Error {
    let out_of_memory = error.0 == sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY;
    let kind = if out_of_memory { ErrorKind::Memory } else { ErrorKind::Device };
    let name = error.error_name().map_or_else(|_| format!("{:?}", error.0), |name| name.to_string_lossy().into_owned());
    let failure = Error::new(kind, format!("CUDA could not {what}: {name}"));
    match out_of_memory {
        true => failure.with_hint("use a smaller batch, or free device memory"),
        false => failure.with_hint(Remedy::ShowDevices),
    }
}

/// Returns the driver's CUDA version, 13000 for 13.0.
pub(super) fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the driver is loaded; the pointer is valid.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(|error| failed("read its version", error))?;
    Ok(version)
}
