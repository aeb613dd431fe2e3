//! The room `dataset`: a folder of WAV files to FP16 HDF5, beside a plain Python loop, a PyTorch
//! pipeline, our transform alone and our reader alone, and with each technique of the builder
//! switched off; shards of lines beside `cat`; Opus beside opusdec.
//!
//! `MELISMA_BENCH_FILES` sets the number of files and `MELISMA_BENCH_FOLDER` their folder. Records
//! use the defaults: 2,000 files on a CPU and 40,000 in shared memory on a GPU.

pub(crate) mod corpus;
mod lines;
mod memory;
mod opus;
mod technique;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use melisma::Existing;
use melisma::audio::{Reads, Source, Target};
use melisma::dataset::{Inputs, Merge, Missing, Options, Outcome, Request, Stage, StoreKind, Techniques};
use melisma::mel::Config;
use melisma::runtime::device::{Device, available_threads};
use melisma::{Context, Error, Result};
use melisma_kernels::Buffer;

use self::corpus::{Corpus, Disk, RATE};
use super::forecast::id;
use super::measure::of_times;
use super::{BenchContext, Peer, Room, Row, peer};

const PEERS: &str = include_str!("../peers/dataset.py");
const FILES: usize = 2000;
const FILES_CUDA: usize = 40_000;
/// Files that the slower programs are measured on.
const FILES_OF_PEERS: usize = 2000;
const RUNS: usize = 3;
/// Bytes of one copy that measures the bandwidth to a GPU.
const COPIED: usize = 256 << 20;

/// Parts that can be measured alone.
pub(super) const PARTS: [(&str, Room); 2] = [("dataset/lines", lines::rows), ("dataset/opus", opus::rows)];

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let is_gpu = matches!(context.device, Device::Cuda(_));
    let default = if is_gpu { FILES_CUDA } else { FILES };
    let n_files = std::env::var("MELISMA_BENCH_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    // Disks are too slow for a GPU.
    let disk = if is_gpu { Disk::Shared } else { Disk::Temporary };
    let corpus = Corpus::new(n_files, disk)?;
    let mut rows = build_rows(context, &corpus)?;
    rows.push(reader(&corpus, 1, Reads::Direct)?);
    rows.push(merged(context, &corpus)?);
    if !is_gpu {
        rows.extend(memory::rows(context)?);
    }
    rows.extend(technique::rows(context, &corpus)?);
    drop(corpus);
    rows.extend(lines::rows(context)?);
    rows.extend(opus::rows(context)?);
    Ok(rows)
}

/// Measures whole builds.
fn build_rows(context: BenchContext<'_>, corpus: &Corpus) -> Result<Vec<Row>> {
    let n = corpus.inputs.files.len() as f64;
    let outcomes: Vec<Outcome> =
        (0..=RUNS).map(|_| run(context, corpus, &Techniques::default())).collect::<Result<_>>()?;
    // The first run warms the page cache.
    let outcomes = &outcomes[1..];
    let of = |seconds: fn(&Outcome) -> f64| of_times(outcomes.iter().map(seconds).collect());
    let walls = of(|outcome| outcome.wall_seconds + outcome.scan_seconds);
    let mut build = walls.rate("dataset/build wav to f16 hdf5", "files/s", n);
    let mut rows = Vec::new();
    if let Device::Cuda(cuda) = context.device {
        let steady = of(|outcome| 1.0 / outcome.steady_rows_per_second.max(1e-9));
        let mut middle = steady.rate("dataset/middle eight tenths of the build", "files/s", 1.0);
        let mut bytes = steady.rate("dataset/samples through the build", "GB/s", corpus.sample_bytes() / 1e9);
        let reading = reader(corpus, available_threads(), Reads::Direct)?;
        let queue = context.device.queue(context.memory.budget())?;
        let pinned = Buffer::pinned(cuda, context.memory.budget(), COPIED)?;
        let mut on_device = Buffer::device(cuda, context.memory.budget(), COPIED)?;
        let mut outcome = Ok(());
        let copied = super::measure(super::Plan::default(), || {
            outcome = queue.start_copy(&pinned, &mut on_device, COPIED).and_then(|()| queue.synchronize());
        });
        outcome?;
        let bandwidth = COPIED as f64 / copied.median / 1e9;
        bytes.ceiling = Some(bandwidth.min(reading.median));
        middle.peers = pytorch_pipeline(corpus);
        rows.extend([
            middle,
            bytes,
            copied.rate("dataset/pinned copies to the device", "GB/s", COPIED as f64 / 1e9),
            reading,
        ]);
        let busy = |name: &str, seconds: fn(&Outcome) -> f64| {
            let shares = outcomes.iter().map(|outcome| 100.0 * seconds(outcome) / outcome.wall_seconds).collect();
            let share = of_times(shares);
            let row = Row::single(format!("dataset/build, {name} busy"), "% busy", share.median);
            Row { spread: share.spread, n: share.n, ..row }
        };
        rows.push(busy("device", |outcome| outcome.counters.device_seconds));
        rows.push(busy("kernels", |outcome| outcome.counters.seconds[Stage::Compute as usize]));
        let batch = Techniques { segments_per_buffer: Some(128), ..Techniques::default() };
        let times = (0..RUNS).map(|_| Ok(1.0 / run(context, corpus, &batch)?.steady_rows_per_second.max(1e-9)));
        let times = of_times(times.collect::<Result<_>>()?);
        rows.push(times.rate("dataset/build, batches of 128", "files/s", 1.0));
    } else {
        let compute = of(|outcome| outcome.counters.seconds[Stage::Compute as usize] / outcome.threads.max(1) as f64);
        build.ceiling = Some(n / compute.median);
        let threads = outcomes[0].threads.to_string();
        if let Some(rate) =
            figure("soundfile+torchaudio+h5py", &["loop", &corpus.path(), &threads, &FILES_OF_PEERS.to_string()])
        {
            build.peers.push(Peer { name: "soundfile+torchaudio+h5py".to_owned(), median: rate });
        }
    }
    let realtime = walls.rate("dataset/build, times real time", "x", n * 10.0).with_id(id::MEL_BUILD);
    rows.splice(0..0, [build, realtime]);
    Ok(rows)
}

/// Measures reading threads, pinned batches and two streams in PyTorch.
fn pytorch_pipeline(corpus: &Corpus) -> Vec<Peer> {
    let threads = available_threads().to_string();
    let found = figure("PyTorch pipeline", &["pipeline", &corpus.path(), &threads, &FILES_OF_PEERS.to_string()]);
    found.into_iter().map(|median| Peer { name: "PyTorch pipeline".to_owned(), median }).collect()
}

fn figure(name: &str, args: &[&str]) -> Option<f64> {
    peer(name, PEERS, args)?["files/s"].as_f64()
}

fn run(context: BenchContext<'_>, corpus: &Corpus, techniques: &Techniques) -> Result<Outcome> {
    let options = options(Config::preset("builder")?)?;
    run_with(context, corpus, options, techniques)
}

fn options(config: Config) -> Result<Options> {
    let ten = Duration::from_secs(10);
    Options::new(config, ten)
}

fn run_with(context: BenchContext<'_>, corpus: &Corpus, options: Options, techniques: &Techniques) -> Result<Outcome> {
    let output = corpus.folder().join("out.h5");
    let outcome = request(context, corpus, options, &output)?.with_techniques(*techniques).build();
    // Every run allocates its pages anew.
    let _ = std::fs::remove_file(&output);
    outcome
}

fn request<'a>(context: BenchContext<'_>, corpus: &'a Corpus, options: Options, output: &Path) -> Result<Request<'a>> {
    let exec = Context::on(context.device.clone(), context.memory.clone())?;
    let request = Request::new_in(&exec, &corpus.inputs, output, options);
    Ok(request.with_existing(Existing::Replace).with_stop_on_failure(true))
}

/// Measures the merge of two shards of at most a thousand files each, which are then checked.
fn merged(context: BenchContext<'_>, corpus: &Corpus) -> Result<Row> {
    let n_shards = corpus.inputs.files.len().div_ceil(1000).max(2);
    let shards = [0, 1].map(|index| corpus.folder().join(format!("part-{index}.h5")));
    for (index, output) in shards.iter().enumerate() {
        let whole = request(context, corpus, options(Config::preset("builder")?)?, output)?;
        whole.with_shard(index, n_shards).build()?;
    }
    let output = corpus.folder().join("merged.h5");
    let merge = Merge::new(&shards, &output, StoreKind::Hdf5, context.memory.budget())
        .with_existing(Existing::Replace)
        .with_missing(Missing::Allow)
        .with_threads(available_threads());
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        melisma::dataset::merge(&merge)?;
        times.push(start.elapsed().as_secs_f64());
    }
    let bytes = std::fs::metadata(&output).map_err(|error| Error::io(output.display(), error))?.len();
    for path in shards.iter().chain([&output]) {
        let _ = std::fs::remove_file(path);
    }
    Ok(of_times(times).rate("dataset/merge of shards", "GB/s", bytes as f64 / 1e9).with_id(id::MERGE))
}

/// Measures threads that read and do nothing else.
fn reader(corpus: &Corpus, threads: usize, reads: Reads) -> Result<Row> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| read_all(&corpus.inputs, &next, reads))).collect();
            readers.into_iter().try_for_each(|reader| reader.join().unwrap_or(Ok(())))
        })?;
        times.push(start.elapsed().as_secs_f64());
    }
    let bytes = corpus.inputs.files.len() as f64 * corpus.sample_bytes();
    Ok(of_times(times).rate(&format!("dataset/reader alone, {threads}t"), "GB/s", bytes / 1e9))
}

fn read_all(inputs: &Inputs, next: &AtomicUsize, reads: Reads) -> Result<()> {
    let mut samples = vec![0i16; RATE as usize * 10];
    while let Some(input) = inputs.files.get(next.fetch_add(1, Relaxed)) {
        Source::reopen(input.path(), Target::new(RATE), samples.len() as u64, reads)?.read_i16(0, &mut samples)?;
    }
    Ok(())
}
