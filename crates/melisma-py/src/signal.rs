//! Ctrl-C while the library works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use melisma::{Error, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often a waiting thread looks at signals.
const TICK: Duration = Duration::from_millis(50);

/// Runs Python's signal handlers; long loops call it several times a second.
///
/// # Errors
/// A handler raised, as the one for Ctrl-C does.
pub fn check() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// Asks work on other threads to stop.
#[derive(Debug, Clone, Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Stop {
    /// # Errors
    /// The work was asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Relaxed) { Err(Error::invalid("interrupted")) } else { Ok(()) }
    }
}

/// Does `work` on another thread while this one calls `tick` and runs signal handlers. When either raises, the work is
/// asked to stop, and what was raised is returned.
pub fn watched<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> PyResult<R> + Send,
    mut tick: impl FnMut() -> PyResult<()> + Send,
) -> PyResult<R> {
    let stop = Stop::default();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            let stop = &stop;
            scope.spawn(move || {
                // The receiver waits for it.
                let _ = send.send(work(stop));
            });
            let mut raised = None;
            loop {
                match receive.recv_timeout(TICK) {
                    Ok(result) => return raised.map_or(result, Err),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(PyRuntimeError::new_err("melisma: a thread panicked"));
                    }
                    Err(RecvTimeoutError::Timeout) if raised.is_some() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(error) = check().and_then(|()| tick()) {
                            stop.0.store(true, Relaxed);
                            raised = Some(error);
                        }
                    }
                }
            }
        })
    })
}
