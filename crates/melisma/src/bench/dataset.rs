//! The room `dataset`: a folder of WAV files to FP16 HDF5, beside the loop that people write in Python, and beside our own
//! transform and our own reader alone.
//!
//! `MELISMA_BENCH_FILES` sets the number of files; records are made with its default.

use std::path::Path;
use std::time::{Duration, Instant};

use super::measure::of_times;
use super::{Peer, Place, Row, peer};
use crate::audio::{Clip, Source, wav};
use crate::dataset::{Counters, Inputs, Options, Request, StoreKind, Tail, build};
use crate::mel::Config;
use crate::runtime::output::Existing;
use crate::{Error, Result};

const PEERS: &str = include_str!("../../../../bench/peers/dataset.py");
const FILES: usize = 2000;
const RATE: u32 = 22_050;
const RUNS: usize = 3;

pub(super) fn rows(place: Place<'_>) -> Result<Vec<Row>> {
    let n_files = std::env::var("MELISMA_BENCH_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(FILES);
    let folder = Scratch::new()?;
    make_corpus(&folder.0, n_files)?;
    let corpus = folder.0.join("w");
    let seconds = n_files as f64 * 10.0;
    let mut times = Vec::new();
    let mut compute = Vec::new();
    let output = folder.0.join("out.h5");
    for _ in 0..=RUNS {
        let (wall, busy) = run(place, &corpus, &output)?;
        times.push(wall);
        compute.push(busy);
    }
    // The first run warms the page cache.
    times.remove(0);
    compute.remove(0);
    let threads = if let crate::runtime::device::Device::Cpu(cpu) = place.device { cpu.threads } else { 1 };
    let measured = of_times(times);
    let compute = of_times(compute.iter().map(|busy| busy / threads as f64).collect());
    let mut build = measured.rate("dataset/build wav to f16 hdf5", "files/s", n_files as f64);
    build.ceiling = Some(n_files as f64 / compute.median);
    let realtime = measured.rate("dataset/build, times real time", "x", seconds);
    let found = peer(PEERS, &[&corpus.display().to_string(), &threads.to_string()]);
    for name in ["soundfile+torchaudio+h5py"] {
        if let Some(rate) = found.as_ref().and_then(|figures| figures[name].as_f64()) {
            build.peers.push(Peer { name: name.to_owned(), median: rate });
        }
    }
    Ok(vec![build, realtime, reader(&corpus, n_files)?])
}

/// Wall seconds, and seconds of the transform on all threads.
fn run(place: Place<'_>, corpus: &Path, output: &Path) -> Result<(f64, f64)> {
    let ten = Duration::from_secs(10);
    let inputs = Inputs::find(&[corpus.to_owned()])?;
    let request = Request {
        inputs: &inputs,
        shard: (0, 1),
        options: Options::new(Config::preset("builder")?, ten, ten, Tail::Pad)?,
        output,
        store: StoreKind::Hdf5,
        existing: Existing::Replace,
        stops_on_failure: true,
        device: place.device,
        budget: place.memory.budget(),
        num_mega_buffers: 3,
        seg_microbatch_segments: None,
    };
    let start = Instant::now();
    let outcome = build(&request, &Counters::default(), |_, _| {})?;
    Ok((start.elapsed().as_secs_f64(), outcome.counters.seconds[2]))
}

/// One thread that only reads.
fn reader(corpus: &Path, n_files: usize) -> Result<Row> {
    let inputs = Inputs::find(&[corpus.to_owned()])?;
    let mut samples = vec![0i16; RATE as usize * 10];
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        for input in &inputs.0 {
            Source::open(&input.path, RATE)?.read_i16(0, &mut samples)?;
        }
        times.push(start.elapsed().as_secs_f64());
    }
    let bytes = n_files as f64 * samples.len() as f64 * 2.0;
    Ok(of_times(times).rate("dataset/reader alone, 1t", "GB/s", bytes / 1e9))
}

fn make_corpus(folder: &Path, n_files: usize) -> Result<()> {
    let place = folder.join("w");
    std::fs::create_dir_all(&place).map_err(|error| Error::io(place.display(), error))?;
    let mut state = 1u32;
    for index in 0..n_files {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 25) as f32 - 0.25
        };
        let clip = Clip::mono(RATE, (0..RATE * 10).map(|_| next()).collect());
        let path = place.join(format!("{index:06}.wav"));
        std::fs::write(&path, wav::write(&clip, wav::SampleFormat::S16)?)
            .map_err(|error| Error::io(path.display(), error))?;
    }
    Ok(())
}

/// A folder that goes away.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("melisma-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Error::io(path.display(), error))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in the temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
