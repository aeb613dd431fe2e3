//! Each technique of the builder, on and off.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use half::f16;
use melisma::audio::Reads;
use melisma::dataset::{Conversion, Outcome, Streams, Techniques, Writes};
use melisma::lock::Mutex;
use melisma::mel::{Config, OutputPrecision};
use melisma::runtime::device::{Device, Queue};
use melisma::{Error, Result};
use melisma_kernels::signal::mel::{Batch, Plan as MelPlan};
use melisma_kernels::{Buffer, Graph, convert};

use super::corpus::{Corpus, RATE};
use super::{BenchContext, RUNS, Row, of_times, options, run, run_with};
use crate::{Peer, Plan, measure};

/// A technique, the settings that turn it on, and the alternatives by name.
type Case = (&'static str, Techniques, Vec<(&'static str, Techniques)>);

/// Files per run.
const FILES: usize = 8000;

/// Measures each technique: the row's figure has the technique on; each peer has it off or uses an alternative.
pub(super) fn rows(context: BenchContext<'_>, corpus: &Corpus) -> Result<Vec<Row>> {
    let corpus = &corpus.first(FILES);
    let on = Techniques::default();
    let batch = |n| Techniques { segments_per_buffer: Some(n), ..on };
    let mut cases: Vec<Case> = vec![
        ("batched conversion", on, vec![("file by file", Techniques { conversion: Conversion::PerFile, ..on })]),
        (
            "direct reads",
            on,
            vec![
                ("by way of a buffer", Techniques { reads: Reads::Buffered, ..on }),
                ("mapped with madvise", Techniques { reads: Reads::Mapped, ..on }),
            ],
        ),
        (
            "writes without a copy",
            on,
            vec![
                ("copied", Techniques { writes: Writes::Copied, ..on }),
                ("direct", Techniques { writes: Writes::Direct, ..on }),
                ("mapped", Techniques { writes: Writes::Mapped, ..on }),
            ],
        ),
        (
            // Slots of several rows, because a single row cannot be made smaller.
            "recovery from too little memory",
            batch(8),
            vec![("once", Techniques { fail_launch: Some(5), ..batch(8) })],
        ),
        (
            "segments_per_buffer by bytes",
            on,
            [("1", 1), ("8", 8), ("128", 128)].map(|(name, n)| (name, batch(n))).to_vec(),
        ),
    ];
    if matches!(context.device, Device::Cuda(_)) {
        cases.extend([
            ("pinned buffers", on, vec![("off", Techniques { pinned: false, ..on })]),
            (
                "a stream per thread",
                on,
                vec![
                    ("copies and compute on streams of their own", Techniques { streams: Streams::Split, ..on }),
                    ("one for all", Techniques { streams: Streams::One, ..on }),
                ],
            ),
            (
                "buffers_in_flight of 1",
                on,
                [("2", 2), ("3", 3)].map(|(name, n)| (name, Techniques { buffers_in_flight: n, ..on })).to_vec(),
            ),
            (
                "autosize_gpu_batch of 8192 segments",
                batch(8192),
                vec![("off, as many as by bytes", Techniques { autosize_gpu_batch: false, ..on })],
            ),
        ]);
    }
    let steady = |outcome: Outcome| 1.0 / outcome.steady_rows_per_second.max(1e-9);
    let time = |techniques: &Techniques| {
        let times = (0..RUNS).map(|_| run(context, corpus, techniques).map(steady)).collect::<Result<Vec<_>>>()?;
        Ok::<_, Error>(of_times(times))
    };
    let plain = time(&on)?;
    let mut rows = Vec::new();
    for (name, with, without) in cases {
        let measured = if with == on { plain } else { time(&with)? };
        let mut row = measured.rate(&format!("dataset/{name}"), "files/s", 1.0);
        for (name, techniques) in &without {
            row.peers.push(Peer { name: (*name).to_owned(), median: 1.0 / time(techniques)?.median });
        }
        rows.push(row);
    }
    let mut half = plain.rate("dataset/FP16 storage", "files/s", 1.0);
    let mut single = options(Config::preset("builder")?)?;
    single.mel.dtype = OutputPrecision::F32;
    let times = (0..RUNS).map(|_| run_with(context, corpus, single.clone(), &on).map(steady)).collect::<Result<_>>()?;
    half.peers.push(Peer { name: "FP32".to_owned(), median: 1.0 / of_times(times).median });
    rows.push(half);
    rows.push(counters());
    rows.push(in_one_kernel(context)?);
    if let Device::Cuda(_) = context.device {
        rows.extend(graphs(context)?);
    }
    Ok(rows)
}

/// Measures counters that every thread of the machine adds to.
fn counters() -> Row {
    const COUNTS: u64 = 100_000;
    let threads = melisma::runtime::device::available_threads();
    let count = |add: &(dyn Fn() + Sync)| {
        measure(Plan { least: 5, most: 5, ..Plan::default() }, || {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..COUNTS).for_each(|_| add()));
                }
            });
        })
    };
    let (atomic, locked) = (AtomicU64::new(0), Mutex::new(0u64));
    let of_atomic = count(&|| {
        atomic.fetch_add(1, Relaxed);
    });
    let of_lock = count(&|| *locked.lock() += 1);
    let amount = (COUNTS * threads as u64) as f64 / 1e6;
    let mut row = of_atomic.rate("dataset/atomic counters", "M/s", amount);
    row.peers.push(Peer { name: "behind a lock".to_owned(), median: amount / of_lock.median });
    row
}

/// The mel transform of ten-second clips that the techniques of a build are timed on.
struct Rig {
    plan: MelPlan,
    batch: Batch,
    samples: Buffer,
    values: Buffer,
}

fn buffer(context: BenchContext<'_>, bytes: usize) -> Result<Buffer> {
    match context.device {
        Device::Cpu(_) => Buffer::host(context.memory.budget(), bytes),
        Device::Cuda(cuda) => Buffer::device(cuda, context.memory.budget(), bytes),
    }
}

fn rig(context: BenchContext<'_>, queue: &Queue, changes: &[&str], n_items: usize) -> Result<Rig> {
    let mut config = Config::preset("builder")?;
    changes.iter().try_for_each(|change| config.set(change))?;
    let n_samples = RATE as usize * 10;
    let n_frames = config.n_frames(n_samples)?;
    let len = n_items * n_frames * config.n_mels * config.dtype.bytes();
    let plan = config.plan(context.device, context.memory.budget())?;
    let sound: Vec<i16> = (0..n_items * n_samples).map(|i| (i as u32).wrapping_mul(40_503) as i16 / 4).collect();
    let mut samples = buffer(context, sound.len() * 2)?;
    queue.copy(sound.as_slice().into(), samples.view_mut::<i16>()?)?;
    Ok(Rig { plan, batch: Batch { n_items, n_samples, n_frames }, samples, values: buffer(context, len)? })
}

fn timed(mut work: impl FnMut() -> Result<()>) -> Result<crate::Measured> {
    let mut outcome = Ok(());
    let measured = measure(Plan::default(), || outcome = work());
    outcome.map(|()| measured)
}

/// Measures logarithm, scale and rounding fused into the mel kernel, beside separate passes over memory.
fn in_one_kernel(context: BenchContext<'_>) -> Result<Row> {
    const CLIPS: usize = 32;
    let queue = context.device.queue(context.memory.budget())?;
    let Rig { plan, batch, samples, mut values } = rig(context, &queue, &[], CLIPS)?;
    let fused = timed(|| {
        plan.run::<i16, f16>(&queue, batch, samples.view()?, values.view_mut()?)?;
        queue.synchronize()
    })?;
    let linear = rig(context, &queue, &["log=none", "dtype=f32"], CLIPS)?;
    let n = linear.values.len() / size_of::<f32>();
    let mut sums = linear.values;
    let widths = convert::plan::<f32, f16>(context.device, n)?;
    let mut host = vec![0f32; n];
    let apart = timed(|| {
        linear.plan.run::<i16, f32>(&queue, batch, samples.view()?, sums.view_mut()?)?;
        queue.copy(sums.view::<f32>()?, host.as_mut_slice().into())?;
        let clamped: Vec<f32> = host.iter().map(|x| x.max(1e-10)).collect();
        let logs: Vec<f32> = clamped.iter().map(|x| x.log10()).collect();
        let scaled: Vec<f32> = logs.iter().map(|x| x * 20.0).collect();
        queue.copy(scaled.as_slice().into(), sums.view_mut::<f32>()?)?;
        widths.run(&queue, sums.view()?, values.view_mut::<f16>()?)?;
        queue.synchronize()
    })?;
    let frames = (batch.n_items * batch.n_frames) as f64 / 1e6;
    let mut row = fused.rate("dataset/post-processing in place", "Mframes/s", frames);
    row.peers.push(Peer { name: "in passes over new memory".to_owned(), median: frames / apart.median });
    Ok(row)
}

/// Measures the copies and the kernel of a batch, submitted one by one and as a graph.
fn graphs(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let Device::Cuda(cuda) = context.device else { return Ok(Vec::new()) };
    let budget = context.memory.budget();
    let queue = context.device.queue(budget)?;
    let mut rows = Vec::new();
    for n_items in [1, 8, 32] {
        let on_device = rig(context, &queue, &[], n_items)?;
        let outer = [
            Buffer::pinned(cuda, budget, on_device.samples.len())?,
            Buffer::pinned(cuda, budget, on_device.values.len())?,
        ];
        let work = |queue: &Queue, (rig, [from, to]): &mut (Rig, [Buffer; 2])| {
            queue.start_copy(from, &mut rig.samples, from.len())?;
            rig.plan.run::<i16, f16>(queue, rig.batch, rig.samples.view()?, rig.values.view_mut()?)?;
            queue.start_copy(&rig.values, to, to.len())
        };
        let mut state = (on_device, outer);
        let plain = timed(|| {
            work(&queue, &mut state)?;
            queue.synchronize()
        })?;
        let mut graph = Graph::capture(&queue, state, work)?;
        let replayed = timed(|| {
            graph.launch(&queue)?;
            queue.synchronize()
        })?;
        let mut row = replayed.rate(&format!("dataset/graph of a batch of {n_items}"), "files/s", n_items as f64);
        row.peers.push(Peer { name: "one by one".to_owned(), median: n_items as f64 / plain.median });
        rows.push(row);
    }
    Ok(rows)
}
