//! The hard memory limit of a worker, and the message that a worker prints when it reaches it.

use super::Spec;
use crate::engine::EngineName;
use crate::runtime::{device, machine};
use crate::text::size;
use crate::{Error, ErrorKind, Result};

/// Memory besides the model's: the program itself and the stack of each thread.
const PROGRAM_BYTES: u64 = 64 << 20;
const THREAD_BYTES: u64 = 4 << 20;
/// Rust's message for a failed allocation, around the number of bytes.
const FAILED: [&str; 2] = ["memory allocation of ", " bytes failed"];

/// Sets the memory limit of this process. GPU engines get no limit, because their libraries map
/// more memory than they use.
pub(super) fn limit(spec: &Spec) -> Result<()> {
    let Some(most) = spec.most_bytes else { return Ok(()) };
    let own = program_bytes(spec);
    let bytes = match spec.candidate.engine {
        // ONNX Runtime's arena grows in powers of two.
        EngineName::Onnxruntime => most.saturating_mul(2).saturating_add(4 * own),
        EngineName::OnnxruntimeCuda | EngineName::OnnxruntimeTensorrt => return Ok(()),
        EngineName::Rten | EngineName::Melisma | EngineName::MelismaChain | EngineName::MelismaMixed => {
            most.saturating_add(own)
        }
    };
    machine::limit_memory(bytes)
}

/// Returns the most that the program itself and its threads take.
pub(super) fn program_bytes(spec: &Spec) -> u64 {
    let threads = match spec.candidate.threads {
        0 => device::available_threads() as u64,
        threads => threads as u64,
    };
    PROGRAM_BYTES.saturating_add(threads.saturating_mul(THREAD_BYTES))
}

/// Recognizes a worker that ran out of memory by its last output.
pub(super) fn refused(said: &str) -> Option<Error> {
    let asked = said.lines().find_map(|line| line.strip_prefix(FAILED[0])?.strip_suffix(FAILED[1]));
    let bytes = asked?.parse().ok()?;
    Some(Error::new(ErrorKind::Memory, format!("it needs {} more", size::show(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_allocation_is_an_error_of_memory() {
        let error = refused("note\nmemory allocation of 6442450944 bytes failed\n").unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Memory, "it needs 6GiB more"));
        assert!(refused("error: no such file\n").is_none());
    }
}
