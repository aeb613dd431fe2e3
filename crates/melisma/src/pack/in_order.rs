//! Runs work in parallel and yields the results in order.

use melisma_kernels::lock::{Condvar, Mutex};

use crate::Result;
use crate::runtime::thread;

/// The number of threads, and the number of results that may be in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workers {
    pub(super) threads: usize,
    pub(super) window: usize,
}

struct State<T> {
    next: usize,
    done: usize,
    stop: bool,
    free: Vec<T>,
    slots: Vec<Option<Result<T>>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    room: Condvar,
    ready: Condvar,
}

/// Calls `work(worker, index, result)` for each index below `n` on the workers' threads, each with
/// its own state, and `take(index, result)` in order on the calling thread. Results are reused.
/// Stops at the first error in order.
pub(super) fn in_order<W, T: Default + Send>(
    Workers { threads, window }: Workers,
    n: usize,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize, &mut T) -> Result<()> + Sync,
    mut take: impl FnMut(usize, &mut T) -> Result<()>,
) -> Result<()> {
    if threads <= 1 || n <= 1 {
        let (mut worker, mut result) = (worker(), T::default());
        return (0..n).try_for_each(|index| {
            work(&mut worker, index, &mut result)?;
            take(index, &mut result)
        });
    }
    let window = window.max(1);
    let slots = (0..window).map(|_| None).collect();
    let state = State { next: 0, done: 0, stop: false, free: Vec::new(), slots };
    let shared = Shared { state: Mutex::new(state), room: Condvar::new(), ready: Condvar::new() };
    let share = || {
        let _stop = Stop { shared: &shared, is_due: std::thread::panicking };
        let mut worker = worker();
        while let Some((index, mut result)) = next(&shared, n, window) {
            let outcome = work(&mut worker, index, &mut result).map(|()| result);
            shared.state.lock().slots[index % window] = Some(outcome);
            shared.ready.notify_all();
        }
    };
    thread::team((0..threads.min(n)).map(|_| share), || {
        let _stop = Stop { shared: &shared, is_due: || true };
        for index in 0..n {
            let mut state = shared.state.lock();
            let outcome = loop {
                if let Some(outcome) = state.slots[index % window].take() {
                    break outcome;
                }
                assert!(!state.stop, "a worker panicked");
                state = shared.ready.wait(state);
            };
            drop(state);
            let mut result = outcome?;
            take(index, &mut result)?;
            let mut state = shared.state.lock();
            state.free.push(result);
            state.done = index + 1;
            drop(state);
            shared.room.notify_all();
        }
        Ok(())
    })?
}

fn next<T: Default>(shared: &Shared<T>, n: usize, window: usize) -> Option<(usize, T)> {
    let mut state = shared.state.lock();
    while !state.stop && state.next < n && state.next >= state.done + window {
        state = shared.room.wait(state);
    }
    if state.stop || state.next >= n {
        return None;
    }
    state.next += 1;
    Some((state.next - 1, state.free.pop().unwrap_or_default()))
}

/// Releases all waiting threads when it is dropped: always for the caller, on a panic for a worker.
struct Stop<'a, T> {
    shared: &'a Shared<T>,
    is_due: fn() -> bool,
}

impl<T> Drop for Stop<'_, T> {
    fn drop(&mut self) {
        if (self.is_due)() {
            self.shared.state.lock().stop = true;
            self.shared.room.notify_all();
            self.shared.ready.notify_all();
        }
    }
}
