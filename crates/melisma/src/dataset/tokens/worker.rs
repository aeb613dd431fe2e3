//! The threads of a build of tokens.

use melisma_kernels::lock::Mutex;

use super::feed::Feed;
use super::job::{FRAMES, Job, Run};
use super::lane::Lane;
use super::reader::Reader;
use super::round_trip::RoundTrip;
use crate::dataset::counters::Stage;
use crate::dataset::store::hash::Table;
use crate::dataset::work::Shared;
use crate::runtime::device::Device;
use crate::runtime::memory::{Budget, Reservation, Space};
use crate::runtime::thread;
use crate::snac::{EncodeEngine, EngineOptions};
use crate::{ErrorKind, Result};

impl Job {
    /// Computes all rows. Returns the number of threads that worked.
    pub(in crate::dataset) fn run(&self, shared: &Shared<'_>) -> Result<usize> {
        let run = Run { job: self, shared, table: Table::new(shared.work.store)?, clipped: Mutex::default() };
        if matches!(shared.work.device, Device::Cuda(_)) {
            return shared.prepare(|| Feed::new(&run))?.run();
        }
        let workers = shared.prepare(|| workers(&run))?;
        let threads = workers.len();
        thread::team(workers.into_iter().map(|worker| || shared.attempt(|| worker.run())), || ())?;
        Ok(threads)
    }
}

/// Creates threads with all their memory. If memory is short, they are fewer.
fn workers<'a>(run: &'a Run<'a>) -> Result<Vec<Worker<'a>>> {
    let mut workers: Vec<Worker<'a>> = Vec::new();
    while workers.len() < run.shared.n_threads {
        match Worker::new(run, workers.first()) {
            Ok(worker) => workers.push(worker),
            Err(error) if error.kind() == ErrorKind::Memory && !workers.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(workers)
}

/// A thread that encodes whole files, one after the other.
struct Worker<'a> {
    run: &'a Run<'a>,
    engine: EncodeEngine,
    check: Option<RoundTrip>,
    samples: Vec<f32>,
    _memory: Reservation,
}

impl<'a> Worker<'a> {
    /// Creates a worker that shares the weights of `first`, if there is one.
    fn new(run: &'a Run<'a>, first: Option<&Self>) -> Result<Self> {
        let budget: &Budget = run.shared.work.budget;
        let memory = budget.reserve(Space::Host, run.job.samples_bytes(FRAMES))?;
        let queue = run.job.device.queue(budget)?;
        let engine = match first {
            Some(first) => first.engine.sibling(&queue, budget, 1)?,
            None => EncodeEngine::new(run.job.model(), &queue, budget, EngineOptions::new(1))?,
        };
        let check = || RoundTrip::new(run, &queue, first.and_then(|first| first.check.as_ref()));
        let check = run.job.measures().then(check).transpose()?;
        let samples = vec![0.0; FRAMES * engine.frame_len()];
        Ok(Self { run, engine, check, samples, _memory: memory })
    }

    fn run(mut self) -> Result<()> {
        loop {
            let items = self.run.shared.take();
            if items.is_empty() {
                return Ok(());
            }
            for item in items {
                self.encode(item.first_row)?;
            }
        }
    }

    fn encode(&mut self, row: u32) -> Result<()> {
        let run = self.run;
        let mut lane = Lane::new(run, row);
        let mut reader = match Reader::open(run, row) {
            Ok(reader) => reader,
            Err(error) => return lane.fail("read", &error),
        };
        let stream = self.engine.open()?;
        loop {
            if run.shared.is_stopped() {
                return self.engine.close(stream);
            }
            let n = match reader.read(run, &mut self.samples) {
                Ok(n) => n,
                Err(error) => {
                    self.engine.close(stream)?;
                    return lane.fail("read", &error);
                }
            };
            let counters = run.shared.work.counters;
            let codes = counters.time(Stage::Compute, || match n {
                0 => self.engine.finish(stream),
                n => self.engine.push(stream, &self.samples[..n]),
            })?;
            lane.push(codes.frames())?;
            if n == 0 {
                return lane.finish(self.check.as_mut());
            }
        }
    }
}
