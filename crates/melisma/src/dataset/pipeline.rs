//! The work: each thread reads files into slots, has them transformed, and writes the rows where they belong.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use melisma_kernels::Cpu;
use xxhash_rust::xxh3::xxh3_64;

use super::counters::{Counters, Stage};
use super::failure::{Action, Failure, Late};
use super::journal::{Journal, Record};
use super::plan::Plan;
use super::row::Status;
use super::slot::{Shape, Slot};
use super::store::Store;
use crate::audio::Source;
use crate::mel::Transform;
use crate::runtime::device::{Device, Queue};
use crate::runtime::memory::Budget;
use crate::{Error, Kind, Result};

/// How often rows are forced onto the disk, so that a crash of the machine loses no more than this.
const SYNC_EVERY: Duration = Duration::from_secs(10);
/// Rows of a file that one thread takes at once, where others can begin in its middle.
const ROWS_PER_ITEM: u32 = 64;

/// Rows of one file that one thread makes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Item {
    first_row: u32,
    n_rows: u32,
}

/// How the work is cut; no value depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    pub(super) threads: usize,
    /// Slots of each thread.
    pub(super) n_slots: usize,
    /// Rows of a slot.
    pub(super) n_rows: usize,
}

/// What the threads share.
pub(super) struct Work<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) device: &'a Device,
    pub(super) budget: &'a Budget,
    pub(super) transform: &'a Transform,
    pub(super) counters: &'a Counters,
    pub(super) journal: Mutex<Journal>,
    pub(super) tuning: Tuning,
    /// Whether the first file that fails ends the build.
    pub(super) stops_on_failure: bool,
}

/// The places of the columns that are written row by row.
struct Columns {
    mel: usize,
    status: usize,
    checksum: usize,
}

/// What is shared while threads run.
struct Shared<'a> {
    work: &'a Work<'a>,
    columns: Columns,
    items: Vec<Item>,
    next: AtomicUsize,
    stop: AtomicBool,
    failed: Mutex<Option<Error>>,
    failures: Mutex<Vec<Late>>,
    synced: Mutex<Instant>,
}

/// Makes every row that `done` does not hold; returns the files that failed.
pub(super) fn run(work: &Work<'_>, done: &[bool]) -> Result<Vec<Late>> {
    let layout = &work.store.layout;
    let columns =
        Columns { mel: layout.column("mel")?, status: layout.column("status")?, checksum: layout.column("checksum")? };
    let shared = Shared {
        work,
        columns,
        items: items(work.plan, done),
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        failed: Mutex::default(),
        failures: Mutex::default(),
        synced: Mutex::new(Instant::now()),
    };
    let n_threads = work.tuning.threads.clamp(1, shared.items.len().max(1));
    let workers = workers(&shared, n_threads)?;
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                if let Err(error) = worker.run() {
                    shared.stop.store(true, Relaxed);
                    shared.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    match shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(shared.failures.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// Threads with all their memory, made before the work begins: where it is short, slots become smaller, then threads fewer.
fn workers<'a>(shared: &'a Shared<'a>, n_threads: usize) -> Result<Vec<Worker<'a>>> {
    let mut n_rows = shared.work.tuning.n_rows;
    loop {
        let mut workers = Vec::new();
        let refused = loop {
            if workers.len() == n_threads {
                return Ok(workers);
            }
            match Worker::new(shared, n_rows) {
                Ok(worker) => workers.push(worker),
                Err(error) if error.kind() == Kind::Memory => break error,
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

/// Runs of rows that are not done, cut at files, and within a file where others can begin there.
fn items(plan: &Plan, done: &[bool]) -> Vec<Item> {
    let mut items = Vec::new();
    for file in &plan.files {
        let mut row = file.first_row;
        let end = file.first_row + file.n_rows;
        while row < end {
            if done[row as usize] {
                row += 1;
                continue;
            }
            let most = if file.can_seek { ROWS_PER_ITEM } else { u32::MAX };
            let n_rows = (row..end).take_while(|&row| !done[row as usize]).take(most as usize).count() as u32;
            items.push(Item { first_row: row, n_rows });
            row += n_rows;
        }
    }
    items
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    queue: Queue,
    free: Vec<Slot>,
    in_flight: VecDeque<Slot>,
    filling: Option<Slot>,
    /// Failures of rows that are not in the journal yet.
    failures: Vec<Late>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, n_rows: usize) -> Result<Self> {
        let Work { plan, device, budget, tuning, transform, .. } = shared.work;
        let device = match device {
            Device::Cpu(cpu) => Device::Cpu(Cpu { threads: 1, ..*cpu }),
            Device::Cuda(_) => (*device).clone(),
        };
        let options = &plan.options;
        let n_frames = options.n_frames();
        let shape = Shape {
            n_rows,
            n_samples: options.segment_samples,
            n_frames,
            n_values: options.mel.n_mels * n_frames,
            dtype: options.mel.dtype,
        };
        let mut free = (0..tuning.n_slots).map(|_| Slot::new(&device, budget, shape)).collect::<Result<Vec<_>>>()?;
        let queue = device.queue(budget)?;
        // A run over silence: the transform's own memory is there too before the work begins.
        for slot in &mut free {
            (0..n_rows).try_for_each(|_| slot.add_failed(0, Status::Pending))?;
            slot.launch(transform, &queue)?;
            slot.finish(&mut Vec::new())?;
            slot.clear();
        }
        Ok(Self { shared, queue, free, in_flight: VecDeque::new(), filling: None, failures: Vec::new() })
    }

    fn run(mut self) -> Result<()> {
        while !self.shared.stop.load(Relaxed) {
            let Some(&item) = self.shared.items.get(self.shared.next.fetch_add(1, Relaxed)) else { break };
            self.make(item)?;
        }
        self.launch()?;
        while let Some(slot) = self.in_flight.pop_front() {
            self.write(slot)?;
        }
        Ok(())
    }

    /// Reads the rows of `item` into slots.
    fn make(&mut self, item: Item) -> Result<()> {
        let Work { plan, counters, .. } = self.shared.work;
        let file = plan.file(&plan.rows[item.first_row as usize]);
        let sample_rate = plan.options.mel.sample_rate;
        let opened = counters.time(Stage::Read, || Source::reopen(&file.input.path, sample_rate, file.n_original));
        let mut source = match opened {
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
            if self.shared.stop.load(Relaxed) {
                return Ok(());
            }
            let row = &plan.rows[index as usize];
            if self.filling.as_ref().is_some_and(|slot| !slot.takes(source.facts().element)) {
                self.launch()?;
            }
            let slot = self.slot()?;
            let read = counters.time(Stage::Read, || slot.add(index, &mut source, row.start, row.n_samples as usize));
            if let Err(error) = read
                && !std::mem::replace(&mut has_failed, true)
            {
                self.fail(index, "read", &error)?;
            }
        }
        let is_last = item.first_row + item.n_rows == file.first_row + file.n_rows;
        counters.files.fetch_add(u64::from(is_last && !has_failed), Relaxed);
        Ok(())
    }

    /// A slot with room for a row.
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
        let Work { transform, counters, device, .. } = self.shared.work;
        let Some(mut slot) = self.filling.take().filter(|slot| !slot.is_empty()) else { return Ok(()) };
        counters.bytes_read.fetch_add(slot.sample_bytes() as u64, Relaxed);
        counters.time(Stage::Compute, || slot.launch(transform, &self.queue))?;
        self.in_flight.push_back(slot);
        if matches!(device, Device::Cpu(_))
            && let Some(slot) = self.in_flight.pop_front()
        {
            self.write(slot)?;
        }
        Ok(())
    }

    /// Writes the rows of a slot, then says so in the journal.
    fn write(&mut self, mut slot: Slot) -> Result<()> {
        let Work { store, counters, plan, .. } = self.shared.work;
        let columns = &self.shared.columns;
        let mut overflowed = Vec::new();
        counters.time(Stage::FromDevice, || slot.finish(&mut overflowed))?;
        for row in overflowed {
            let error = Error::new(Kind::Check, "a value does not fit half precision").with_hint("use --dtype f32");
            self.fail(row, "compute", &error)?;
        }
        let mut record = Record::default();
        counters.time(Stage::Write, || {
            for (index, entry) in slot.entries.iter().enumerate() {
                let bytes = slot.row(index)?;
                let row = u64::from(entry.row);
                store.write(columns.mel, row, bytes)?;
                store.write(columns.checksum, row, &xxh3_64(bytes).to_le_bytes())?;
                store.write(columns.status, row, &[entry.status as u8])?;
                match record.rows.last_mut() {
                    Some((first, n)) if *first + *n == entry.row => *n += 1,
                    _ => record.rows.push((entry.row, 1)),
                }
                counters.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
            }
            Ok::<(), Error>(())
        })?;
        let n = slot.entries.len() as u64;
        counters.rows.fetch_add(n, Relaxed);
        counters.samples.fetch_add(n * plan.options.segment_samples as u64, Relaxed);
        // Failures of rows in later slots may go along: a failure is said at least once, and rows decide what is redone.
        record.failures = std::mem::take(&mut self.failures);
        self.record(record)?;
        slot.clear();
        self.free.push(slot);
        Ok(())
    }

    fn record(&self, record: Record) -> Result<()> {
        let Work { store, journal, .. } = self.shared.work;
        let mut synced = self.shared.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.record(record)?;
        if synced.elapsed() > SYNC_EVERY {
            store.sync()?;
            journal.synced()?;
            *synced = Instant::now();
        }
        Ok(())
    }

    fn fail(&mut self, row: u32, stage: &str, error: &Error) -> Result<()> {
        let Work { plan, counters, stops_on_failure, .. } = self.shared.work;
        let file = plan.file(&plan.rows[row as usize]);
        if *stops_on_failure {
            return Err(Error::new(error.kind(), format!("{}: {error}", file.input.name))
                .with_hint("without `--on-error fail` the file is listed and the build goes on"));
        }
        counters.failed.fetch_add(1, Relaxed);
        let failure = Failure::new(file.input.name.clone(), stage, error, Action::ZeroFilled);
        let late = Late { file: file.index, row, failure };
        self.failures.push(late.clone());
        self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).push(late);
        Ok(())
    }
}
