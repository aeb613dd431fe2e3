//! Where a decoding stream stands.

/// Where a stream stands, in samples from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples of all frames pushed so far.
    pub pushed: u64,
    /// Samples that are final.
    pub exact: u64,
    /// Samples handed out.
    pub emitted: u64,
    /// Of these, samples that were handed out by [`Player::peek`](super::Player::peek) before they were final.
    pub early: u64,
}

impl Progress {
    /// Returns the number of samples that must become final before the next one is handed out:
    /// after a peek, the length of the pause.
    pub fn gap(&self) -> u64 {
        self.emitted.saturating_sub(self.exact)
    }
}
