//! NVTX ranges for NVIDIA's profilers. Without a profiler or its library, nothing happens.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use crate::device::cuda::{Library, require};

struct Calls {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

fn calls() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    CALLS
        .get_or_init(|| {
            let library = &require(Library::Nvtx).ok()?.library;
            // SAFETY: these are the names and types of NVTX's C interface, unchanged since version
            // 1.
            unsafe {
                Some(Calls {
                    push: *library.get(b"nvtxRangePushA\0").ok()?,
                    pop: *library.get(b"nvtxRangePop\0").ok()?,
                })
            }
        })
        .as_ref()
}

/// Returns whether ranges can be emitted at all.
pub fn is_available() -> bool {
    calls().is_some()
}

/// Opens a range on this thread.
pub fn push(name: &str) {
    if let (Some(calls), Ok(name)) = (calls(), CString::new(name)) {
        // SAFETY: the name is null-terminated and copied by the callee.
        unsafe { (calls.push)(name.as_ptr()) };
    }
}

/// Closes the range that this thread opened last.
pub fn pop() {
    if let Some(calls) = calls() {
        // SAFETY: takes nothing and returns the depth.
        unsafe { (calls.pop)() };
    }
}
