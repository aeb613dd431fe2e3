//! Ctrl-C while the library works, and tasks that are cancelled.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use melisma::runtime::thread;
use melisma::{Error, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;

use crate::error::raise;

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(50);

thread_local! {
    /// The request to cancel the call that this thread makes for a task.
    static CANCEL: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Runs Python's signal handlers, and asks whether the task of this thread was cancelled.
///
/// # Errors
/// A handler raised, as the one for Ctrl-C does, or the task was cancelled.
pub fn check() -> PyResult<()> {
    if CANCEL.with_borrow(|cancel| cancel.as_ref().is_some_and(|cancel| cancel.check().is_err())) {
        return Err(CancelledError::new_err(()));
    }
    Python::attach(|py| py.check_signals())
}

/// Cancels a call that another thread makes.
#[pyclass(name = "_Cancel", module = "melisma._melisma", frozen)]
pub struct PyCancel {
    stop: Stop,
}

#[pymethods]
impl PyCancel {
    #[new]
    fn new() -> Self {
        Self { stop: Stop::default() }
    }

    /// Asks the call to end.
    fn cancel(&self) {
        self.stop.ask();
    }

    /// Makes a call on this thread. Once it is cancelled, it ends as after Ctrl-C, with `asyncio.CancelledError`.
    fn run<'py>(&self, call: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let before = CANCEL.replace(Some(self.stop.clone()));
        let returned = check().and_then(|()| call.call0());
        CANCEL.set(before);
        returned
    }
}

/// Looks at signals from within a loop: often enough for a person, too rarely to slow the loop down.
pub struct Watch {
    checked: Instant,
    raised: Option<PyErr>,
}

impl Watch {
    pub fn new() -> Self {
        Self { checked: Instant::now(), raised: None }
    }

    /// Runs the handlers of pending signals, once in a tick.
    ///
    /// # Errors
    /// A handler raised.
    pub fn check(&mut self) -> PyResult<()> {
        if self.checked.elapsed() < TICK {
            return Ok(());
        }
        self.checked = Instant::now();
        check()
    }

    /// Works like [`Watch::check`], for callbacks of the library: [`Watch::settle`] gives what was raised.
    pub fn ask(&mut self) -> Result<()> {
        self.check().map_err(|raised| self.keep(raised))
    }

    /// Keeps an exception for [`Watch::settle`], and stands in for it in the library.
    pub fn keep(&mut self, raised: PyErr) -> Error {
        let message = raised.to_string();
        self.raised = Some(raised);
        Error::invalid(message)
    }

    /// Returns what the library returned, or what was raised meanwhile.
    pub fn settle<R>(self, returned: Result<R>) -> PyResult<R> {
        match self.raised {
            Some(raised) => Err(raised),
            None => returned.map_err(raise),
        }
    }
}

/// Asks work on other threads to stop.
#[derive(Debug, Clone, Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Stop {
    /// Fails once the work was asked to stop.
    ///
    /// # Errors
    /// The work was asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Relaxed) { Err(Error::invalid("interrupted")) } else { Ok(()) }
    }

    fn ask(&self) {
        self.0.store(true, Relaxed);
    }
}

/// Does `work` on another thread while this one calls `tick` and runs signal handlers. When either raises, the work is
/// asked to stop, and once it has ended, what was raised is returned. Signals that came before are seen first: loops in C,
/// such as that of `list`, call again and again without a look at them.
pub fn watched<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> Result<R> + Send,
    tick: impl FnMut() -> PyResult<()> + Send,
) -> PyResult<R> {
    check()?;
    let stop = Stop::default();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            let stop = &stop;
            let run = move || {
                // The receiver waits for it.
                let _ = send.send(work(stop));
            };
            thread::start_in(scope, run).map_err(raise)?;
            let outcome = wait(&receive, tick);
            if outcome.is_err() {
                stop.ask();
            }
            outcome
        })
    })
}

/// Does `work`, which owns what it uses, on another thread while this one runs signal handlers. When one raises, the
/// work is asked to stop and left alone: this returns at once. Signals that came before are seen first.
pub fn alone<R: Send + 'static>(py: Python<'_>, work: impl FnOnce(&Stop) -> Result<R> + Send + 'static) -> PyResult<R> {
    check()?;
    let stop = Stop::default();
    let (send, receive) = mpsc::channel();
    let of_work = stop.clone();
    let run = move || {
        // The receiver may be gone.
        let _ = send.send(work(&of_work));
    };
    thread::start("melisma-call", run).map_err(raise)?;
    let outcome = py.detach(move || wait(&receive, || Ok(())));
    if outcome.is_err() {
        stop.ask();
    }
    outcome
}

fn wait<R>(receive: &Receiver<Result<R>>, mut tick: impl FnMut() -> PyResult<()>) -> PyResult<R> {
    loop {
        match receive.recv_timeout(TICK) {
            Ok(result) => return result.map_err(raise),
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("melisma: a thread panicked")),
            Err(RecvTimeoutError::Timeout) => check().and_then(|()| tick())?,
        }
    }
}
