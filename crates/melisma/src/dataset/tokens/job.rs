//! Tokens on a device: the encoder, and the threads that feed it.

use std::collections::HashMap;

use melisma_kernels::lock::Mutex;

use super::feed::Feed;
use super::lane::{Lane, Reader};
use super::round_trip::RoundTrip;
use super::{Check, Tokens};
use crate::dataset::counters::Stage;
use crate::dataset::hash::Table;
use crate::dataset::request::Request;
use crate::dataset::work::{Shared, for_one_thread};
use crate::runtime::device::Device;
use crate::runtime::memory::{Budget, Needed, Reservation, Space};
use crate::runtime::thread;
use crate::snac::{Config, EncodeEngine, Engine, EngineOptions, Model};
use crate::{ErrorKind, Result};

/// Frames of samples that are read and encoded at once.
const FRAMES: usize = 16;
/// Memory of a comparison: its transform, and the samples that wait.
const CHECK_BYTES: u64 = 4 << 20;

/// What a build of tokens computes with.
pub(in crate::dataset) struct Job {
    pub(in crate::dataset) threads: usize,
    pub(super) n_slots: usize,
    tokens: Tokens,
    /// The device of one thread.
    device: Device,
    /// Memory in use before the build, such as the model's.
    held_bytes: u64,
}

impl Tokens {
    /// The least memory of a build, apart from its files and the model: one thread that encodes one
    /// file at a time.
    pub fn needed(config: &Config, device: &Device, check: Check) -> Needed {
        let device = for_one_thread(device);
        let mut needed = EncodeEngine::needed(config, &device, 1);
        needed.host += (FRAMES * config.frame_len() * size_of::<f32>()) as u64;
        if check != Check::None {
            let decoder = Engine::needed(config, &device, 1);
            needed.host += decoder.host + CHECK_BYTES;
            needed.device += decoder.device;
        }
        needed
    }
}

/// State shared by the threads of a run.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) shared: &'a Shared<'a>,
    /// The columns that a row's hash covers.
    pub(super) table: Table<'a>,
    /// Where the audio of rows that were read to their ends is clipped.
    pub(super) clipped: Mutex<HashMap<u32, String>>,
}

impl Job {
    pub(in crate::dataset) fn new(tokens: &Tokens, request: &Request<'_>) -> Result<Self> {
        let held_bytes = request.context.budget().usage(Space::Host).now;
        let (threads, device) = (request.threads, for_one_thread(request.context.device()));
        Ok(Self { threads, n_slots: tokens.n_slots(), tokens: tokens.clone(), device, held_bytes })
    }

    /// What is held already, and one thread that encodes one file.
    pub(in crate::dataset) fn least_bytes(&self) -> u64 {
        self.held_bytes + Tokens::needed(self.model().config(), &self.device, self.tokens.check).host
    }

    /// Whether rows are decoded again and compared with their files.
    pub(super) fn measures(&self) -> bool {
        self.tokens.check != Check::None
    }

    pub(super) fn model(&self) -> &Model {
        &self.tokens.model
    }

    /// Bytes of the samples of `n_frames` frames.
    pub(super) fn samples_bytes(&self, n_frames: usize) -> u64 {
        (n_frames * self.model().config().frame_len() * size_of::<f32>()) as u64
    }

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

/// Threads with all their memory. If memory is short, they are fewer.
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
    /// With the weights of `first`, if there is one.
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
