//! Spectrograms on a device: the transform, and the threads that feed it.

use std::sync::atomic::AtomicU64;

use super::Options;
use super::clock::Clock;
use super::slot::{Queues, Shape};
use super::tuning::{Tuning, tuning};
use super::worker::Worker;
use crate::dataset::request::Request;
use crate::dataset::technique::{Streams, Techniques};
use crate::dataset::work::{Shared, for_one_thread};
use crate::mel::{Batch, Plan};
use crate::runtime::device::Device;
use crate::runtime::memory::Budget;
use crate::runtime::thread;
use crate::{ErrorKind, Result};

/// What a build of spectrograms computes with.
pub(in crate::dataset) struct Job {
    pub(super) options: Options,
    pub(super) plan: Plan,
    pub(super) tuning: Tuning,
    device: Device,
    techniques: Techniques,
}

/// State shared by the threads of a run.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) shared: &'a Shared<'a>,
    pub(super) clock: Option<Clock>,
    /// The queues of all threads, if they share them.
    pub(super) queues: Option<Queues>,
    pub(super) launches: AtomicU64,
}

impl Job {
    pub(in crate::dataset) fn new(options: &Options, request: &Request<'_>) -> Result<Self> {
        let (device, techniques) = (request.context.device(), request.techniques);
        let plan = options.mel.plan(device, request.context.budget())?;
        let tuning = tuning(device, options, &techniques, request.threads);
        Ok(Self { options: options.clone(), plan, tuning, device: device.clone(), techniques })
    }

    pub(in crate::dataset) fn threads(&self) -> usize {
        self.tuning.threads
    }

    /// Slots of one row for one thread, and the transform's scratch.
    pub(in crate::dataset) fn least_bytes(&self) -> u64 {
        let n_slots = if matches!(self.device, Device::Cpu(_)) { 1 } else { self.techniques.buffers_in_flight.max(1) };
        let slots = shape(&self.options, 1).bytes().iter().sum::<usize>() * n_slots;
        let batch = Batch { n_items: 1, n_samples: 0, n_frames: self.options.n_frames() };
        slots as u64 + self.plan.scratch_bytes(&for_one_thread(&self.device), batch)
    }

    /// Computes all rows. Returns the number of threads that worked.
    pub(in crate::dataset) fn run(&self, shared: &Shared<'_>) -> Result<usize> {
        let work = shared.work;
        let clock = match work.device {
            Device::Cpu(_) => None,
            Device::Cuda(_) => Some(Clock::start(&work.device.queue(work.budget)?)?),
        };
        let run = Run {
            job: self,
            shared,
            clock,
            queues: (work.techniques.streams == Streams::One)
                .then(|| one_queue(work.device, work.budget))
                .transpose()?,
            launches: AtomicU64::new(0),
        };
        let workers = shared.prepare(|| workers(&run))?;
        let threads = workers.len();
        thread::team(workers.into_iter().map(|worker| || shared.attempt(|| worker.run())), || ())?;
        if let Some(clock) = run.clock {
            clock.tell(work.counters);
        }
        Ok(threads)
    }
}

/// Threads with all their memory, allocated before the work begins. If memory is short, slots
/// become smaller, then threads fewer.
fn workers<'a>(run: &'a Run<'a>) -> Result<Vec<Worker<'a>>> {
    let mut n_rows = run.job.tuning.n_rows;
    loop {
        let mut workers = Vec::new();
        let refused = loop {
            if workers.len() == run.shared.n_threads {
                return Ok(workers);
            }
            match Worker::new(run, n_rows) {
                Ok(worker) => workers.push(worker),
                Err(error) if error.kind() == ErrorKind::Memory => break error,
                Err(error) => return Err(error),
            }
        };
        match (n_rows, workers.is_empty()) {
            (1, true) => return Err(refused),
            (1, false) => return Ok(workers),
            _ => n_rows = n_rows.div_ceil(2),
        }
    }
}

/// The shape of slots of `n_rows` rows.
pub(super) fn shape(options: &Options, n_rows: usize) -> Shape {
    let n_frames = options.n_frames();
    Shape {
        n_rows,
        n_samples: options.segment_samples,
        n_frames,
        n_values: options.mel.n_mels * n_frames,
        dtype: options.mel.dtype,
    }
}

/// One queue for copies and kernels.
pub(super) fn one_queue(device: &Device, budget: &Budget) -> Result<Queues> {
    let queue = device.queue(budget)?;
    Ok(Queues { input: queue.clone(), compute: queue.clone(), output: queue })
}

/// The queues of one thread.
pub(super) fn queues(device: &Device, budget: &Budget, streams: Streams) -> Result<Queues> {
    match (device, streams) {
        (Device::Cuda(_), Streams::Split) => {
            let queue = || device.queue(budget);
            Ok(Queues { input: queue()?, compute: queue()?, output: queue()? })
        }
        _ => one_queue(device, budget),
    }
}
