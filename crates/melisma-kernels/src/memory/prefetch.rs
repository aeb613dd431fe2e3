//! Memory asked for before it is needed.

/// Floats of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 16;

/// Asks for `values`, which then arrive side by side while the caller does other work.
pub fn prefetch(values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and every x86-64 machine has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}
