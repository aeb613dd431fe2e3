//! A queue on the CPU: worker threads with their scratch memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::disjoint::Disjoint;
use crate::device::Cpu;
use crate::device::workers::Workers;
use crate::lock::{Mutex, MutexGuard};
use crate::{Budget, Buffer, Result, Space};

/// Threads of this process, and scratch memory for kernels.
#[derive(Clone)]
pub struct CpuQueue {
    inner: Arc<Inner>,
    /// Once it is set, tasks that have not begun are skipped.
    stop: Option<Arc<AtomicBool>>,
}

struct Inner {
    cpu: Cpu,
    workers: Workers,
    budget: Budget,
    /// One scratch that all workers share, then one per worker.
    scratch: Box<[Mutex<Scratch>]>,
}

impl CpuQueue {
    pub(super) fn new(cpu: Cpu, budget: &Budget) -> Self {
        let workers = Workers::new(cpu.threads);
        let scratch = (0..=workers.threads()).map(|_| Mutex::default()).collect();
        Self { inner: Arc::new(Inner { cpu, workers, budget: budget.clone(), scratch }), stop: None }
    }

    pub(super) fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Self {
        Self { inner: Arc::clone(&self.inner), stop: Some(Arc::clone(stop)) }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// Returns the processor it runs on.
    pub fn cpu(&self) -> Cpu {
        self.inner.cpu
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Calls `task(index)` once for every index below `n_tasks`, on all threads.
    pub(crate) fn run(&self, n_tasks: usize, task: impl Fn(usize) + Sync) {
        self.run_on_workers(n_tasks, |_, index| task(index));
    }

    fn run_on_workers(&self, n_tasks: usize, task: impl Fn(usize, usize) + Sync) {
        self.inner.workers.run(n_tasks, |worker, index| {
            if !self.is_stopped() {
                task(worker, index);
            }
        });
    }

    /// Calls `task(first, part)` for every `part` of `slice`: `len` elements starting at `first`,
    /// fewer at the end.
    pub(crate) fn run_in_parts<T: Send>(&self, slice: &mut [T], len: usize, task: impl Fn(usize, &mut [T]) + Sync) {
        let end = slice.len();
        let parts = Disjoint::new(slice);
        self.run(end.div_ceil(len), |index| {
            let first = index * len;
            // SAFETY: every index is handed out once, and the parts of two indices do not overlap.
            task(first, unsafe { parts.part(first..end.min(first + len)) });
        });
    }

    /// Works like [`CpuQueue::run`], with `len` floats of scratch for each worker.
    pub(crate) fn run_with_scratch(
        &self,
        n_tasks: usize,
        len: usize,
        task: impl Fn(&mut [f32], usize) + Sync,
    ) -> Result<()> {
        for scratch in &self.inner.scratch[1..] {
            scratch.lock().grow(&self.inner.budget, len)?;
        }
        self.run_on_workers(n_tasks, |worker, index| {
            if let Ok(floats) = self.inner.scratch[worker + 1].lock().floats(len) {
                task(floats, index);
            }
        });
        Ok(())
    }

    /// Returns the number of floats of scratch that the budget allows in total, including those already held.
    pub(crate) fn scratch_room(&self) -> usize {
        let held: usize =
            self.inner.scratch.iter().map(|scratch| scratch.lock().0.as_ref().map_or(0, Buffer::len)).sum();
        let free = usize::try_from(self.inner.budget.free(Space::Host)).unwrap_or(usize::MAX);
        free.saturating_add(held) / size_of::<f32>()
    }

    /// Returns `len` floats that all workers share, held until the guard is dropped.
    pub(crate) fn shared_scratch(&self, len: usize) -> Result<MutexGuard<'_, Scratch>> {
        let mut scratch = self.inner.scratch[0].lock();
        scratch.grow(&self.inner.budget, len)?;
        Ok(scratch)
    }
}

impl std::fmt::Debug for CpuQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CpuQueue").field(&self.inner.cpu).finish()
    }
}

/// Memory that grows to the largest request and is never shrunk.
#[derive(Default)]
pub(crate) struct Scratch(Option<Buffer>);

impl Scratch {
    fn grow(&mut self, budget: &Budget, len: usize) -> Result<()> {
        let bytes = len * size_of::<f32>();
        if self.0.as_ref().map_or(0, Buffer::len) < bytes {
            self.0 = None;
            self.0 = Some(Buffer::host(budget, bytes)?);
        }
        Ok(())
    }

    /// Returns the first `len` floats.
    pub(crate) fn floats(&mut self, len: usize) -> Result<&mut [f32]> {
        match &mut self.0 {
            Some(buffer) => Ok(&mut buffer.view_mut::<f32>()?.host()?[..len]),
            None => Ok(&mut []),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_stopped_queue_skips_tasks_and_its_original_does_not() {
        let isa = crate::Isa::from_env().unwrap();
        let count = |queue: &CpuQueue, stop: &AtomicBool| {
            let n_run = AtomicUsize::new(0);
            queue.run(100, |index| {
                n_run.fetch_add(1, Relaxed);
                stop.fetch_or(index == 10, Relaxed);
            });
            n_run.into_inner()
        };
        for threads in [1, 3] {
            let stop = Arc::new(AtomicBool::new(false));
            let whole = CpuQueue::new(Cpu { isa, threads }, &Budget::unlimited());
            let stopped = whole.stopped_by(&stop);
            let n_run = count(&stopped, &stop);
            assert!(n_run == 11 || threads > 1, "{n_run}");
            assert_eq!(count(&stopped, &stop), 0);
            assert_eq!(count(&whole, &stop), 100);
        }
    }
}
