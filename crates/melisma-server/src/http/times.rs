//! The time limits of connections.

use std::time::Duration;

/// How long connections may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From one answer, or the start, to the next request's last header.
    pub header: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// In all.
    pub total: Duration,
}
