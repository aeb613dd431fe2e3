//! Builds a finished dataset from audio files.

use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::{Map, Value};

use super::counters::{Counters, Snapshot};
use super::failure::{Failure, RowFailure, in_order};
use super::guard;
use super::identity::{Identity, plan_of};
use super::inputs::Inputs;
use super::journal::{self, Header, Journal};
use super::paths::Paths;
use super::pipeline::{self, Made};
use super::plan::{Options, Plan};
use super::row::Status;
use super::store::{Column, ColumnType, HASH_COLUMN, Kind, Layout, Store};
use super::technique::{Techniques, Writes};
use super::work::{Tuning, Work, shape};
use crate::format::DType;
use crate::mel::{OutputPrecision, Transform};
use crate::output::Existing;
use crate::runtime::device::Device;
use crate::runtime::memory::{Budget, Space};
use crate::{Error, Remedy, Result};

/// Bytes of samples in a slot, unless a row is larger. On the CPU, a slot's samples and values stay
/// in the cache.
const SLOT_BYTES: usize = 512 << 10;
/// Upper limit for the bytes of samples in a slot on the CPU, whatever the requested number of
/// rows.
const MOST_BYTES: usize = 64 << 20;
const SLOT_BYTES_CUDA: usize = 4 << 20;
/// Bytes of all slots on a GPU, unless more is requested. With the driver's own memory, the total
/// stays below 2 GB.
const DEVICE_BYTES: usize = 1 << 30;
/// Above this many threads, direct writes block each other.
const MANY_WRITERS: usize = 4;
/// Version 2 adds `row_hash`, and `shard` in shards.
const VERSION: i64 = 2;

/// A build request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The input files.
    pub inputs: &'a Inputs,
    /// The shard to build and the number of shards.
    pub shard: (usize, usize),
    /// The settings that determine the values.
    pub options: Options,
    /// The path of the dataset.
    pub output: &'a Path,
    /// The file format of the dataset.
    pub store: Kind,
    /// Whether an existing dataset or an unfinished build of another plan may be replaced.
    pub existing: Existing,
    /// Whether the build stops at the first file that fails.
    pub stops_on_failure: bool,
    /// The device that runs the transform.
    pub device: &'a Device,
    /// Threads that read and write. On the CPU they also run the transform.
    pub threads: usize,
    /// The budget that memory is charged to.
    pub budget: &'a Budget,
    /// How the work is done; the values do not depend on it.
    pub techniques: Techniques,
}

/// The result of a build.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Files whose rows are all valid.
    pub files_ok: usize,
    /// The files that failed, in order.
    pub failures: Vec<Failure>,
    /// Rows of the dataset.
    pub segments: usize,
    /// Rows that an earlier run wrote.
    pub resumed_segments: usize,
    /// Seconds of audio.
    pub audio_seconds: f64,
    /// Files whose headers were repaired.
    pub files_repaired: usize,
    /// Files that were resampled.
    pub files_resampled: usize,
    /// Seconds spent reading headers.
    pub scan_seconds: f64,
    /// Seconds from the first row to the last.
    pub wall_seconds: f64,
    /// Rows per second over the middle 80 % of this run.
    pub steady_rows_per_second: f64,
    /// Threads that worked.
    pub threads: usize,
    /// The counters of this run.
    pub counters: Snapshot,
}

/// Builds the dataset, or resumes an earlier run of the same plan. Calls `planned` with the plan
/// before the work begins.
///
/// # Errors
/// The output exists with another plan and may not be replaced, a disk is full, the budget or the
/// device runs out of memory, or a file fails and the request stops on failures. Finished rows stay
/// on disk, and the same request resumes from there.
pub fn build(request: &Request<'_>, counters: &Counters, planned: impl FnOnce(&Plan, usize)) -> Result<Outcome> {
    let start = Instant::now();
    let paths = Paths::new(request.output)?;
    guard::spare(&paths, request.inputs.paths())?;
    if request.existing == Existing::Replace {
        guard::output(request.output)?;
    }
    let threads = request.threads.max(1);
    let transform = Transform::new(request.device, request.budget, request.options.mel.clone())?;
    let (inputs, first_index) = request.inputs.shard(request.shard.0, request.shard.1);
    let plan = Plan::new(request.options.clone(), inputs, first_index, threads)?;
    if request.stops_on_failure
        && let Some(RowFailure { failure, .. }) = plan.refused.first()
    {
        return Err(Error::invalid(format!("{}: {}", failure.path, failure.message)).with_hint(Remedy::SkipFailures));
    }
    let scan_seconds = start.elapsed().as_secs_f64();
    let layout = layout(&plan, request.shard);
    let hash = layout.text("plan").unwrap_or_default().to_owned();
    let outcome = |failures: Vec<Failure>, resumed_segments: usize, wall_seconds: f64, made: &Made| Outcome {
        files_ok: plan.n_inputs.saturating_sub(failures.len()),
        failures,
        segments: plan.rows.len(),
        resumed_segments,
        audio_seconds: plan.audio_seconds,
        files_repaired: plan.n_repaired,
        files_resampled: plan.n_resampled,
        scan_seconds,
        wall_seconds,
        steady_rows_per_second: made.steady_rows_per_second,
        threads: made.threads,
        counters: counters.now(),
    };
    let held = request.budget.reserve(Space::Host, plan.bytes());
    let _held =
        held.map_err(|error| pipeline::with_least(error, &plan, &transform, (request.device, &request.techniques)))?;
    if request.output.exists() && request.existing == Existing::Refuse {
        return match plan_of(request.output) {
            Some(found) if found == hash => {
                if guard::beside(&paths, request.store, Existing::Refuse).is_ok() {
                    paths.clear()?;
                }
                planned(&plan, plan.rows.len());
                Ok(outcome(paths.read_failures(), plan.rows.len(), 0.0, &Made::default()))
            }
            _ => Err(guard::already(request.output, ", and is not of this plan")),
        };
    }
    guard::beside(&paths, request.store, request.existing)?;
    let header = Header::new(&hash, &plan.fingerprint);
    let (mut store, journal, past) = begin(request, &paths, layout, &plan, &header)?;
    let mut done = vec![false; plan.rows.len()];
    for &(first, n) in past.iter().flat_map(|record| &record.rows) {
        done.iter_mut().skip(first as usize).take(n as usize).for_each(|done| *done = true);
    }
    let resumed = done.iter().filter(|done| **done).count();
    planned(&plan, resumed);
    let begun = Instant::now();
    let tuning = tuning(request.device, &request.options, &request.techniques, threads);
    let is_limited = request.budget.limit(Space::Host).is_some();
    let is_mapped = request.techniques.writes == Writes::Mapped
        // The pages of a map count towards the memory of the process.
        || request.techniques.writes == Writes::Auto && tuning.threads > MANY_WRITERS && !is_limited;
    if is_mapped {
        store.map();
    }
    let work = Work {
        plan: &plan,
        store: &store,
        device: request.device,
        budget: request.budget,
        transform: &transform,
        counters,
        journal: Mutex::new(journal),
        tuning,
        techniques: request.techniques,
        stops_on_failure: request.stops_on_failure,
    };
    let mut made = pipeline::run(&work, &done)?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    store.sync()?;
    let past = past.into_iter().flat_map(|record| record.failures);
    let failures =
        in_order(plan.refused.iter().cloned().chain(past).chain(std::mem::take(&mut made.failures)).collect());
    paths.write_failures(&failures)?;
    paths.publish(request.existing)?;
    Ok(outcome(failures, resumed, wall_seconds, &made))
}

/// Opens the partial output of an earlier run of the same plan, or starts over.
fn begin(
    request: &Request<'_>,
    paths: &Paths,
    layout: Layout,
    plan: &Plan,
    header: &Header,
) -> Result<(Store, Journal, Vec<journal::Record>)> {
    let restart = request.existing == Existing::Replace;
    if let Some(past) = journal::read(&paths.journal).filter(|_| paths.partial.exists()) {
        let is_same = past.header.plan == header.plan && past.header.inputs == header.inputs;
        if is_same {
            if let Ok(store) = Store::reopen(&paths.partial, request.store, layout.clone()) {
                alone(&store, request)?;
                let journal = Journal::reopen(&paths.journal, &past)?;
                return Ok((store, journal, past.records));
            }
        } else if !restart {
            return Err(guard::unfinished(paths));
        }
    }
    if paths.partial.is_file() {
        // A running build holds a lock on its partial file.
        if let Ok(file) = std::fs::File::open(&paths.partial)
            && matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
        {
            return Err(busy(request));
        }
    }
    paths.clear()?;
    let store = Store::create(&paths.partial, request.store, layout)?;
    alone(&store, request)?;
    write_columns(&store, plan)?;
    let journal = Journal::create(&paths.journal, header)?;
    Ok((store, journal, Vec::new()))
}

fn alone(store: &Store, request: &Request<'_>) -> Result<()> {
    if store.lock() { Ok(()) } else { Err(busy(request)) }
}

fn busy(request: &Request<'_>) -> Error {
    Error::invalid(format!("{}: another process is building this dataset", request.output.display()))
        .with_hint("wait for it to end, or choose another name")
}

/// Sizes slots by bytes. On a GPU, their size, then their number, then the number of threads is
/// reduced until they fit the free memory.
pub(super) fn tuning(device: &Device, options: &Options, techniques: &Techniques, threads: usize) -> Tuning {
    let [samples, values] = shape(options, 1).bytes();
    let samples = samples / 2;
    let by_bytes = |bytes: usize| (bytes / samples).clamp(1, 1 << 16);
    let Device::Cuda(cuda) = device else {
        let n_rows = techniques.segments_per_buffer.unwrap_or_else(|| by_bytes(SLOT_BYTES)).min(by_bytes(MOST_BYTES));
        return Tuning { threads, n_slots: 1, n_rows };
    };
    let n_rows = techniques.segments_per_buffer.unwrap_or_else(|| by_bytes(SLOT_BYTES_CUDA));
    let n_slots = techniques.buffers_in_flight.max(1);
    if !techniques.autosize_gpu_batch {
        return Tuning { threads, n_slots, n_rows };
    }
    let free = cuda.memory().map_or(usize::MAX, |(free, _)| free as usize);
    // The most rows that all slots may hold together.
    let most = (DEVICE_BYTES.min(free / 2) / (samples + values)).max(1);
    let n_rows = match techniques.segments_per_buffer {
        Some(n_rows) => n_rows.min(most),
        None => n_rows.min((most / (threads * n_slots)).max(1)),
    };
    let n_slots = n_slots.min((most / (threads * n_rows)).max(1));
    Tuning { threads: threads.min((most / (n_slots * n_rows)).max(1)), n_slots, n_rows }
}

fn layout(plan: &Plan, (shard, n_shards): (usize, usize)) -> Layout {
    let options = &plan.options;
    let config = &options.mel;
    let n_frames = options.n_frames();
    let width = plan.files.iter().map(|file| file.input.name.len()).max().unwrap_or(1).max(1);
    let shape = match config.order() {
        melisma_kernels::signal::mel::Order::FilterTime => vec![config.n_mels, n_frames],
        melisma_kernels::signal::mel::Order::TimeFilter => vec![n_frames, config.n_mels],
    };
    let element = if config.dtype == OutputPrecision::F16 { DType::F16 } else { DType::F32 };
    let columns = vec![
        Column::flat("path", ColumnType::Text(width)),
        Column::flat("file_index", DType::I64),
        Column::flat("start_sample", DType::I64),
        Column::flat("valid_frames", DType::I32),
        Column::flat("status", DType::U8),
        Column::flat("checksum", DType::U64),
        Column::flat(HASH_COLUMN, DType::U64),
        Column { name: "mel".to_owned(), element: element.into(), shape },
    ];
    let json = serde_json::to_string(options).unwrap_or_default();
    let mut identity = Identity::new(&json);
    for row in &plan.rows {
        let file = plan.file(row);
        identity.add(file.input.name.as_bytes(), [u64::from(file.index), row.start, u64::from(row.valid_frames)]);
    }
    // Sorted by name.
    let attributes = [
        ("config", Value::from(json)),
        ("format", Value::from("melisma-dataset")),
        ("hop_length", Value::from(config.hop_length)),
        ("multiplier", Value::from(config.multiplier)),
        ("plan", Value::from(identity.finish())),
        ("preset", Value::from(config.preset.clone())),
        ("sample_rate", Value::from(config.sample_rate)),
        ("segment_hop_samples", Value::from(options.segment_hop_samples)),
        ("segment_samples", Value::from(options.segment_samples)),
        ("shard", Value::from(format!("{}/{n_shards}", shard + 1))),
        ("version", Value::from(VERSION)),
    ];
    let attributes = attributes.into_iter().filter(|(name, _)| n_shards > 1 || *name != "shard");
    let attributes: Map<String, Value> = attributes.map(|(name, value)| (name.to_owned(), value)).collect();
    Layout { n_rows: plan.rows.len() as u64, columns, attributes }
}

/// Writes the columns that the plan determines, and sets every `status` to pending.
fn write_columns(store: &Store, plan: &Plan) -> Result<()> {
    const ROWS: usize = 4096;
    let width = store.layout.columns[0].row_bytes();
    for (index, rows) in plan.rows.chunks(ROWS).enumerate() {
        let first = (index * ROWS) as u64;
        let mut names = vec![0; rows.len() * width];
        for (row, to) in rows.iter().zip(names.chunks_mut(width)) {
            let name = plan.file(row).input.name.as_bytes();
            to[..name.len()].copy_from_slice(name);
        }
        store.write(0, first, &names)?;
        let files: Vec<u8> = rows.iter().flat_map(|row| i64::from(plan.file(row).index).to_le_bytes()).collect();
        store.write(1, first, &files)?;
        let starts: Vec<u8> = rows.iter().flat_map(|row| row.start.to_le_bytes()).collect();
        store.write(2, first, &starts)?;
        let valid: Vec<u8> = rows.iter().flat_map(|row| row.valid_frames.to_le_bytes()).collect();
        store.write(3, first, &valid)?;
        store.write(4, first, &vec![Status::Pending as u8; rows.len()])?;
    }
    Ok(())
}
