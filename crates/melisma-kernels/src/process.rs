//! Limits of the system on this process.

use std::io::{Error, Result};

/// Makes every allocation that would exceed `bytes` of private memory fail from now on. Memory that
/// is only reserved and mapped files do not count.
///
/// # Errors
/// The system refuses.
pub fn limit_memory(bytes: u64) -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours, and is written by the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit) } != 0 {
        return Err(Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max.min(bytes);
    // SAFETY: the structure is only read.
    if unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}
