//! Ends a server from another thread.

use std::sync::Arc;

use tokio::sync::watch;

/// Makes a server drain: it refuses new requests, finishes the open ones and ends. Clones stop the same server.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    stop: Arc<watch::Sender<bool>>,
}

impl Stopper {
    /// Starts to drain. A server that does not run yet drains as soon as it runs.
    pub fn drain(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }
}
