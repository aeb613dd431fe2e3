//! The hard limit of a worker's memory, and what a worker prints that reaches it.

use super::Spec;
use crate::engine::EngineName;
use crate::runtime::machine;
use crate::text::size;
use crate::{Error, Kind, Result};

/// Memory beside the model's: the program itself, and the stack of a thread.
const PROGRAM_BYTES: u64 = 64 << 20;
const THREAD_BYTES: u64 = 4 << 20;
/// What Rust says when an allocation fails, around the number of bytes.
const FAILED: [&str; 2] = ["memory allocation of ", " bytes failed"];

/// Sets the limit of this process. On a GPU there is none: its libraries map more than they use.
pub(super) fn limit(spec: &Spec) -> Result<()> {
    let Some(most) = spec.most_bytes else { return Ok(()) };
    let threads = spec.candidate.threads as u64;
    let own = PROGRAM_BYTES.saturating_add(threads.saturating_mul(THREAD_BYTES));
    let bytes = match spec.candidate.engine {
        // Its arena grows in powers of two.
        EngineName::Onnxruntime => most.saturating_mul(2).saturating_add(4 * own),
        EngineName::OnnxruntimeCuda | EngineName::OnnxruntimeTensorrt => return Ok(()),
        EngineName::Rten | EngineName::Melisma | EngineName::MelismaChain | EngineName::MelismaMixed => {
            most.saturating_add(own)
        }
    };
    machine::limit_memory(bytes)
}

/// The error of a worker to whom the system refused memory, by what it said before it ended.
pub(super) fn refused(said: &str) -> Option<Error> {
    let asked = said.lines().find_map(|line| line.strip_prefix(FAILED[0])?.strip_suffix(FAILED[1]));
    let bytes = asked?.parse().ok()?;
    Some(Error::new(Kind::Memory, format!("it asks for {} more than it may take", size::show(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_allocation_is_an_error_of_memory() {
        let error = refused("note\nmemory allocation of 6442450944 bytes failed\n").unwrap();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (Kind::Memory, "it asks for 6GiB more than it may take")
        );
        assert!(refused("error: no such file\n").is_none());
    }
}
