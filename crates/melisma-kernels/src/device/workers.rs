//! Fork-join over a fixed set of threads. Starting a job allocates nothing.
//!
//! # Why not rayon?
//!
//! A queue starts jobs in hot paths that must not allocate, and rayon's injector allocates. Kernels
//! need no more than fork and join on a fixed set of threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

use crate::lock::{Condvar, Mutex};

/// Spins before a waiting thread sleeps: about 50 us. The jobs of a model follow each other within
/// a few microseconds, and waking a thread takes longer than many jobs.
const SPINS: usize = 1000;

/// The share of one worker in a job: it takes tasks until none is left. The argument is the
/// worker's index.
type Job = &'static (dyn Fn(usize) + Sync);

#[derive(Default)]
struct State {
    job: Option<Job>,
    n_asleep: usize,
    is_caller_asleep: bool,
    panicked: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    start: Condvar,
    done: Condvar,
    /// Counts jobs, so that a worker runs each one once. Changes only while `state` is locked.
    epoch: AtomicU64,
    /// Helpers that have not finished the job. Becomes 0 without the lock.
    busy: AtomicUsize,
}

/// Returns whether `ready` became true while spinning.
fn spin(ready: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        let is_ready = ready();
        if !is_ready {
            std::hint::spin_loop();
        }
        is_ready
    })
}

impl Shared {
    fn serve(&self, worker: usize) {
        let mut seen = 0;
        loop {
            spin(|| self.epoch.load(Acquire) != seen);
            let job = {
                let mut state = self.state.lock();
                while self.epoch.load(Relaxed) == seen && !state.stop {
                    state.n_asleep += 1;
                    state = self.start.wait(state);
                    state.n_asleep -= 1;
                }
                if state.stop {
                    return;
                }
                seen = self.epoch.load(Relaxed);
                state.job
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| job.map(|job| job(worker))));
            if outcome.is_err() {
                self.state.lock().panicked = true;
            }
            if self.busy.fetch_sub(1, Release) == 1 && self.state.lock().is_caller_asleep {
                self.done.notify_one();
            }
        }
    }

    fn begin(&self, job: Job, n_helpers: usize) {
        let mut state = self.state.lock();
        state.job = Some(job);
        self.busy.store(n_helpers, Relaxed);
        self.epoch.fetch_add(1, Release);
        let anyone_sleeps = state.n_asleep > 0;
        drop(state);
        if anyone_sleeps {
            self.start.notify_all();
        }
    }

    /// Waits for all helpers; returns whether one panicked.
    fn end(&self) -> bool {
        spin(|| self.busy.load(Acquire) == 0);
        let mut state = self.state.lock();
        while self.busy.load(Acquire) > 0 {
            state.is_caller_asleep = true;
            state = self.done.wait(state);
            state.is_caller_asleep = false;
        }
        state.job = None;
        std::mem::take(&mut state.panicked)
    }
}

/// The caller's thread plus `threads - 1` helpers.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// Serialises jobs.
    turn: Mutex<()>,
}

impl Workers {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let helpers = (1..threads.max(1))
            .map_while(|worker| {
                let shared = shared.clone();
                // If a thread cannot be started, there are fewer helpers; results do not depend on
                // their number.
                std::thread::Builder::new().name(format!("melisma-{worker}")).spawn(move || shared.serve(worker)).ok()
            })
            .collect();
        Self { shared, helpers, turn: Mutex::default() }
    }

    pub(crate) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `task(worker, index)` once for every index below `n_tasks`, on all threads, and
    /// returns when all are done. Any worker may get any index.
    pub(crate) fn run(&self, n_tasks: usize, task: impl Fn(usize, usize) + Sync) {
        let _turn = self.turn.lock();
        if self.helpers.is_empty() || n_tasks <= 1 {
            return (0..n_tasks).for_each(|index| task(0, index));
        }
        let next = AtomicUsize::new(0);
        let take_tasks = |worker: usize| {
            loop {
                let index = next.fetch_add(1, Relaxed);
                if index >= n_tasks {
                    return;
                }
                task(worker, index);
            }
        };
        let job: &(dyn Fn(usize) + Sync) = &take_tasks;
        // SAFETY: helpers use the reference only until `busy` is 0, and `end` waits for that even
        // if this thread's share of the work panics.
        let job: Job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(job) };
        self.shared.begin(job, self.helpers.len());
        let own = catch_unwind(AssertUnwindSafe(|| take_tasks(0)));
        let panicked = self.shared.end();
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(!panicked, "a task panicked on a helper thread");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.start.notify_all();
        for helper in self.helpers.drain(..) {
            // `run` already reported a helper's panic.
            let _ = helper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 5] {
            let workers = Workers::new(threads);
            for n_tasks in [0, 1, 2, 3, 100] {
                let counts: Vec<AtomicUsize> = (0..n_tasks).map(|_| AtomicUsize::new(0)).collect();
                workers.run(n_tasks, |worker, index| {
                    assert!(worker < threads);
                    counts[index].fetch_add(1, Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Relaxed) == 1), "{threads} threads, {n_tasks} tasks");
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_workers_usable() {
        let workers = Workers::new(3);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            workers.run(64, |_, index| assert_ne!(index, 40, "task 40"));
        }));
        assert!(panic.is_err());
        let sum = AtomicUsize::new(0);
        workers.run(10, |_, index| {
            sum.fetch_add(index, Relaxed);
        });
        assert_eq!(sum.load(Relaxed), 45);
    }

    #[test]
    fn a_panic_of_a_helper_is_told_once() {
        let workers = Workers::new(2);
        assert_eq!(workers.threads(), 2);
        // Neither thread can run both tasks.
        let both = Barrier::new(2);
        let helper_panics = |worker: usize, _| {
            both.wait();
            assert_eq!(worker, 0, "a helper");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| workers.run(2, helper_panics))).is_err());
        workers.run(2, |_, _| {});
    }
}
