//! Limits of the system on this process.

use std::io::{Error, Result};

/// Makes every allocation that would exceed `bytes` of private memory fail from now on. Memory that
/// is only reserved and mapped files do not count.
///
/// # Errors
/// The system refuses.
pub fn limit_memory(bytes: u64) -> Result<()> {
    change(libc::RLIMIT_DATA, |most| most.min(bytes))
}

/// Lets this process open as many files and connections as the system allows.
///
/// # Errors
/// The system refuses.
pub fn raise_file_limit() -> Result<()> {
    change(libc::RLIMIT_NOFILE, |most| most)
}

/// Sets the limit on `resource` to `choose` of the highest that is allowed.
fn change(resource: libc::__rlimit_resource_t, choose: impl FnOnce(u64) -> u64) -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours, and is written by the call.
    if unsafe { libc::getrlimit(resource, &raw mut limit) } != 0 {
        return Err(Error::last_os_error());
    }
    limit.rlim_cur = choose(limit.rlim_max);
    // SAFETY: the structure is only read.
    if unsafe { libc::setrlimit(resource, &raw const limit) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}
