//! A block of audio as the server sends it.

use std::time::Instant;

use melisma::ErrorKind;

use super::{Error, Result};

/// Bytes of the header of a binary message.
pub(super) const HEAD_BYTES: usize = 16;

/// Audio that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) at: Instant,
    pub(super) position: u64,
    pub(super) n_samples: u32,
    flags: u32,
}

impl Block {
    /// Returns the header of a binary message.
    ///
    /// # Errors
    /// It is too short.
    pub(super) fn read(at: Instant, bytes: &[u8]) -> Result<Self> {
        let [head, ..] = bytes.as_chunks::<HEAD_BYTES>().0 else {
            return Err(Error::new(ErrorKind::Check, format!("a block of {} bytes", bytes.len())));
        };
        let [a, b, n_samples, flags] =
            [0, 4, 8, 12].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        Ok(Self { at, position: u64::from(b) << 32 | u64::from(a), n_samples, flags })
    }

    /// Returns whether the server says that samples are missing before it.
    pub(super) fn has_gap(&self) -> bool {
        self.flags & 1 != 0
    }

    pub(super) fn is_last(&self) -> bool {
        self.flags & 2 != 0
    }
}
