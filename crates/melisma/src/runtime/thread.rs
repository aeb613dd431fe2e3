//! Threads. If the system refuses one, that is an error, where [`std::thread::spawn`] panics.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use melisma_kernels::lock::{Condvar, Mutex};

use crate::{Error, ErrorKind, Result};

/// Starts a thread called `name`.
///
/// # Errors
/// The system refuses.
pub fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(refused)
}

/// Starts a thread of `scope`.
///
/// # Errors
/// The system refuses. Threads that were started before go on.
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).map_err(refused)
}

/// Runs each of `works` on a thread of its own, and `own` on this one; waits for all of them. None
/// begins before all have their thread.
///
/// # Errors
/// The system refuses a thread. Then none of them runs.
pub fn team<R>(works: impl IntoIterator<Item: FnOnce() + Send>, own: impl FnOnce() -> R) -> Result<R> {
    let gate = Gate::default();
    std::thread::scope(|scope| {
        for work in works {
            let gate = &gate;
            let started = Builder::new().spawn_scoped(scope, move || {
                if gate.wait() {
                    work()
                }
            });
            if let Err(error) = started {
                gate.set(false);
                return Err(refused(error));
            }
        }
        gate.set(true);
        Ok(own())
    })
}

/// Fails if the system does not allow `n` more threads now: for libraries that panic in this case.
///
/// # Errors
/// The system refuses one of them.
pub fn probe(n: usize) -> Result<()> {
    team((0..n).map(|_| || ()), || ())
}

/// Returns the error for a thread that the system refuses.
pub fn refused(error: io::Error) -> Error {
    Error::new(ErrorKind::Device, format!("a thread cannot be started: {error}"))
        .with_hint("use fewer threads")
        .or_hint("raise the limits on processes and memory: `ulimit -u` and `ulimit -v`")
}

/// Lets threads wait until it is known whether they run.
#[derive(Default)]
struct Gate {
    is_open: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_open: bool) {
        *self.is_open.lock() = Some(is_open);
        self.changed.notify_all();
    }

    fn wait(&self) -> bool {
        let known = self.is_open.lock();
        let known = self.changed.wait_while(known, |known| known.is_none());
        *known == Some(true)
    }
}
