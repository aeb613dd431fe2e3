//! The time limits of connections.

use std::time::Duration;

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimeouts {
    /// From the start or the previous answer to the last header of the next request.
    pub header: Duration,
    /// Longest time without a byte in either direction.
    pub idle: Duration,
    /// Longest duration of the connection.
    pub total: Duration,
}
