//! One thread of a build: a ring of slots that it fills, transforms and writes in turn.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_64;

use super::clock::Clock;
use super::job::{Job, Run};
use super::slot::{Entry, Queues, Slot, one_queue, queues, shape};
use crate::audio::SampleType;
use crate::dataset::counters::Stage;
use crate::dataset::failure::RowFailure;
use crate::dataset::plan::Plan;
use crate::dataset::row::Status;
use crate::dataset::store::hash;
use crate::dataset::store::journal::Record;
use crate::dataset::technique::{Streams, Writes};
use crate::dataset::work::{Item, Shared, Work, for_one_thread};
use crate::runtime::device::Device;
use crate::runtime::thread;
use crate::{Error, ErrorKind, Remedy, Result};

impl Job {
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

/// Creates threads with all their memory, allocated before the work begins. If memory is short,
/// slots become smaller, then threads fewer.
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

struct Worker<'a> {
    run: &'a Run<'a>,
    device: Device,
    queues: Queues,
    free: Vec<Slot>,
    in_flight: VecDeque<Slot>,
    filling: Option<Slot>,
    /// Row failures that are not in the journal yet.
    failures: Vec<RowFailure>,
    /// A copy of the rows, if writes are not direct.
    copied: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(run: &'a Run<'a>, n_rows: usize) -> Result<Self> {
        let Work { device, budget, techniques, .. } = run.shared.work;
        let device = for_one_thread(device);
        let queues = match &run.queues {
            Some(queues) => queues.clone(),
            None => queues(&device, budget, techniques.streams)?,
        };
        let mut worker = Self {
            run,
            device,
            queues,
            free: Vec::new(),
            in_flight: VecDeque::new(),
            filling: None,
            failures: Vec::new(),
            copied: Vec::new(),
        };
        worker.make_slots(n_rows)?;
        Ok(worker)
    }

    /// Creates slots of `n_rows` rows and runs each over silence once, so that the transform's
    /// memory is allocated before the work begins.
    fn make_slots(&mut self, n_rows: usize) -> Result<()> {
        let Work { budget, techniques, .. } = self.run.shared.work;
        let Job { options, plan, tuning, .. } = self.run.job;
        let shape = shape(options, n_rows);
        for _ in 0..tuning.n_slots {
            let mut slot = Slot::new(&self.device, budget, shape, techniques)?;
            slot.fill()?;
            slot.launch(plan, &self.queues)?;
            slot.wait(None)?;
            slot.clear();
            self.free.push(slot);
        }
        Ok(())
    }

    pub(super) fn run(mut self) -> Result<()> {
        loop {
            let items = self.run.shared.take();
            let (Some(first), Some(last)) = (items.first(), items.last()) else { break };
            let Work { store, counters, .. } = self.run.shared.work;
            let n_rows: u32 = items.iter().map(|item| item.n_rows).sum();
            // The items are contiguous: none of the rows between them is done.
            if first.first_row + n_rows == last.first_row + last.n_rows {
                let announce = || store.announce(self.run.shared.columns.values, first.first_row.into(), n_rows.into());
                counters.time(Stage::Write, announce);
            }
            for &item in items {
                self.make(item)?;
            }
        }
        self.launch()?;
        self.drain()
    }

    fn drain(&mut self) -> Result<()> {
        while let Some(slot) = self.in_flight.pop_front() {
            self.write(slot)?;
        }
        Ok(())
    }

    /// Reads the rows of `item` into slots.
    fn make(&mut self, item: Item) -> Result<()> {
        let Work { plan, counters, techniques, .. } = self.run.shared.work;
        let file = plan.file(&plan.rows[item.first_row as usize]);
        let open = || plan.open(&plan.rows[item.first_row as usize], techniques.reads);
        let mut source = match counters.time(Stage::Read, open) {
            Ok(source) => source,
            Err(error) => {
                self.fail(item.first_row, "read", &error)?;
                for row in item.first_row..item.first_row + item.n_rows {
                    self.slot()?.add_failed(row, Status::of(&error))?;
                }
                return Ok(());
            }
        };
        let mut has_failed = false;
        for index in item.first_row..item.first_row + item.n_rows {
            if self.run.shared.is_stopped() {
                return Ok(());
            }
            let row = &plan.rows[index as usize];
            if self.filling.as_ref().is_some_and(|slot| !slot.takes(source.facts().element)) {
                self.launch()?;
            }
            let slot = self.slot()?;
            let bytes = row.n_samples * if source.facts().element == SampleType::I16 { 2 } else { 4 };
            let read = counters.time(Stage::Read, || slot.add(index, &mut source, row.start, row.n_samples as usize));
            match read {
                Ok(()) => drop(counters.bytes_read.fetch_add(bytes, Relaxed)),
                Err(_) if std::mem::replace(&mut has_failed, true) => {}
                Err(error) => self.fail(index, "read", &error)?,
            }
        }
        let is_last = item.first_row + item.n_rows == file.first_row + file.n_rows;
        counters.files.fetch_add(u64::from(is_last && !has_failed), Relaxed);
        Ok(())
    }

    /// Returns a slot that has room for a row.
    fn slot(&mut self) -> Result<&mut Slot> {
        if self.filling.as_ref().is_some_and(Slot::is_full) {
            self.launch()?;
        }
        if self.filling.is_none() {
            if self.free.is_empty()
                && let Some(slot) = self.in_flight.pop_front()
            {
                self.write(slot)?;
            }
            self.filling = self.free.pop();
        }
        self.filling.as_mut().ok_or_else(|| Error::invalid("a build needs at least one slot"))
    }

    fn launch(&mut self) -> Result<()> {
        let Some(slot) = self.filling.take().filter(|slot| !slot.is_empty()) else { return Ok(()) };
        self.run.shared.work.counters.bytes_sent.fetch_add(slot.sample_bytes() as u64, Relaxed);
        self.submit(slot)
    }

    fn submit(&mut self, mut slot: Slot) -> Result<()> {
        let Work { counters, techniques, .. } = self.run.shared.work;
        let plan = &self.run.job.plan;
        let fails = techniques.fails(self.run.launches.fetch_add(1, Relaxed) + 1);
        let launch = || match fails {
            true => Err(Error::new(ErrorKind::Memory, "a launch was told that memory is short")),
            false => slot.launch(plan, &self.queues),
        };
        let launched = match &self.device {
            Device::Cpu(_) => counters.time(Stage::Compute, launch),
            Device::Cuda(_) => counters.time(Stage::Wait, launch),
        };
        match launched {
            Ok(()) => self.in_flight.push_back(slot),
            Err(error) if error.kind() == ErrorKind::Memory => return self.recover(slot, error),
            Err(error) => return Err(error),
        }
        match (&self.device, self.in_flight.pop_back()) {
            (Device::Cpu(_), Some(slot)) => self.write(slot),
            (_, slot) => {
                self.in_flight.extend(slot);
                Ok(())
            }
        }
    }

    /// Recovers from a launch that ran out of memory: finishes what is running, recreates the slots
    /// at half the size, and resubmits the rows from their host copy.
    fn recover(&mut self, slot: Slot, refused: Error) -> Result<()> {
        self.run.shared.work.counters.recovered.fetch_add(1, Relaxed);
        self.drain()?;
        self.free.clear();
        let mut n_rows = slot.shape.n_rows;
        loop {
            if n_rows == 1 {
                return Err(refused);
            }
            n_rows = n_rows.div_ceil(2);
            match self.make_slots(n_rows) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::Memory => self.free.clear(),
                Err(error) => return Err(error),
            }
        }
        let mut at = 0;
        while at < slot.entries.len() {
            self.launch_rest()?;
            let to = self.slot()?;
            at += to.add_rows(&slot, at..slot.entries.len())?;
        }
        self.launch_rest()
    }

    /// Works like [`Worker::launch`], for rows that are already counted.
    fn launch_rest(&mut self) -> Result<()> {
        match self.filling.take().filter(|slot| !slot.is_empty()) {
            Some(slot) => self.submit(slot),
            None => Ok(()),
        }
    }

    /// Writes the rows of a slot, then records them in the journal.
    fn write(&mut self, mut slot: Slot) -> Result<()> {
        let counters = self.run.shared.work.counters;
        let options = &self.run.job.options;
        counters.time(Stage::Wait, || slot.wait(self.run.clock.as_ref()))?;
        let (span, begun) = (Stage::Write.span().entered(), Instant::now());
        let mut overflowed = Vec::new();
        slot.settle(&mut overflowed)?;
        for row in overflowed {
            let error = Error::new(ErrorKind::Check, "a value does not fit half precision")
                .with_hint(Remedy::UseRowType("f32".to_owned()));
            self.fail(row, "compute", &error)?;
        }
        let mut record = Record::default();
        let mut first = 0;
        for run in slot.entries.chunk_by(|a, b| a.row + 1 == b.row) {
            self.write_run(&slot, first..first + run.len(), run)?;
            record.rows.push((run[0].row, run.len() as u32));
            first += run.len();
        }
        counters.add(Stage::Write, begun.elapsed().as_nanos() as u64);
        span.record("bytes", (slot.entries.len() * options.row_bytes()) as u64);
        drop(span);
        let n = slot.entries.len() as u64;
        counters.rows.fetch_add(n, Relaxed);
        counters.samples.fetch_add(n * options.segment_samples as u64, Relaxed);
        // May include failures of rows in later slots: each failure is recorded at least once, and
        // the rows decide what is redone.
        record.failures = std::mem::take(&mut self.failures);
        self.run.shared.record(record)?;
        slot.clear();
        self.free.push(slot);
        Ok(())
    }

    /// Writes consecutive rows at once.
    fn write_run(&mut self, slot: &Slot, range: Range<usize>, run: &[Entry]) -> Result<()> {
        let Work { store, counters, techniques, plan, .. } = self.run.shared.work;
        let columns = &self.run.shared.columns;
        let (row, bytes) = (u64::from(run[0].row), slot.rows(range)?);
        let sums: Vec<u64> = bytes.chunks(self.run.job.options.row_bytes()).map(xxh3_64).collect();
        let hash = |(entry, &checksum): (&Entry, &u64)| hash_of(plan, entry, checksum);
        let hashes: Vec<u64> = run.iter().zip(&sums).map(hash).collect();
        if techniques.writes == Writes::Copied {
            self.copied.clear();
            self.copied.extend_from_slice(bytes);
            store.write(columns.values, row, &self.copied)?;
        } else {
            store.write(columns.values, row, bytes)?;
        }
        store.write(columns.checksum, row, &to_bytes(&sums))?;
        store.write(columns.row_hash, row, &to_bytes(&hashes))?;
        store.write(columns.status, row, &run.iter().map(|entry| entry.status as u8).collect::<Vec<_>>())?;
        counters.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    fn fail(&mut self, row: u32, stage: &str, error: &Error) -> Result<()> {
        self.failures.push(self.run.shared.fail(row, stage, error)?);
        Ok(())
    }
}

fn hash_of(plan: &Plan, entry: &Entry, checksum: u64) -> u64 {
    let row = &plan.rows[entry.row as usize];
    let file = plan.file(row);
    let (name, file, status) = (plan.input(file).name(), u64::from(file.index), entry.status as u8);
    let (name, frames) = (name.as_bytes(), u64::from(row.valid_frames));
    hash::Entry { name, tokens: None, kept: &[], file, place: row.start, frames, status, checksum }.hash()
}

fn to_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
