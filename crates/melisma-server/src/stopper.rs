//! Ends a server from another thread.

use std::sync::Arc;

use melisma::{Error, ErrorKind, Result};
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

    /// Calls `tell`, and starts to drain: what `unless_draining` calls has ended before, or does not begin.
    pub fn drain_telling(&self, tell: impl FnOnce()) {
        self.stop.send_modify(|stop| {
            tell();
            *stop = true;
        });
    }

    /// Calls `tell` unless the server drains.
    pub(crate) fn unless_draining(&self, tell: impl FnOnce()) {
        let is_draining = self.stop.borrow();
        if !*is_draining {
            tell();
        }
    }

    /// Returns whether it was asked to.
    pub(crate) fn is_draining(&self) -> bool {
        *self.stop.borrow()
    }

    /// Fails if it was.
    ///
    /// # Errors
    /// The server is stopping.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_draining() {
            true => Err(Error::new(ErrorKind::Busy, "the server is stopping")),
            false => Ok(()),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }
}
