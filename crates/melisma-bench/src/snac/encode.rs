//! Sound to codes: a clip, live streams, a batch and a corpus, beside PyTorch and ONNX Runtime with the same weights.

mod corpus;
mod cost;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::noise::fill_normal;
use melisma::snac::{Codes, Config, EncodeEngine, EngineOptions, Model, StreamId};
use melisma_kernels::{Cpu, Device};
use serde::Deserialize;

use super::file::model_folder;
use super::{BenchContext, Figures, Peer, Plan, Rig, Row, SEED, frame_time, measure, of_times, peer, quantiles};
use crate::folder::Folder;

const PEERS: &str = include_str!("../../peers/snac_encode.py");
const CPU_PARTS: [&str; 2] = ["torch", "onnxruntime"];
const CUDA_PARTS: [&str; 3] = ["eager", "graph", "compile"];
/// Clips that a GPU encodes in one batch.
const N_CLIPS: usize = 64;
const N_CLIPS_CPU: usize = 4;
/// Live streams that share a step.
const N_STREAMS: usize = 256;
const N_STREAMS_CPU: usize = 4;
const N_FRAMES: usize = 50;
/// Steps before the latency of a stream is measured.
const WARM_UP: usize = 6;

/// A model shape to measure.
struct Shape {
    label: &'static str,
    config: Config,
    clip_seconds: usize,
    extent: Extent,
}

/// The rows of a shape.
#[derive(Clone, Copy)]
enum Extent {
    Every,
    Clip,
}

/// What one part of the peers' script printed.
#[derive(Deserialize)]
struct Printed {
    rows: Figures,
    codes: BTreeMap<String, Vec<Vec<i32>>>,
}

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let shapes = [
        Shape { label: "24 kHz", config: Config::snac_24khz(), clip_seconds: 10, extent: Extent::Every },
        Shape { label: "32 kHz", config: Config::snac_32khz(), clip_seconds: 5, extent: Extent::Clip },
        Shape { label: "44 kHz", config: Config::snac_44khz(), clip_seconds: 5, extent: Extent::Clip },
    ];
    let rows = shapes.iter().map(|shape| shape_rows(context, shape)).collect::<Result<Vec<_>>>()?;
    Ok(rows.concat())
}

/// A model with its weights in a folder, and a clip.
struct Bench<'a> {
    shape: &'a Shape,
    model: Arc<Model>,
    samples: Vec<f32>,
}

/// Measures our rows with their peers, and the share of equal codes.
fn shape_rows(context: BenchContext<'_>, shape: &Shape) -> Result<Vec<Row>> {
    let device = context.device;
    let folder = model_folder(shape.label, &shape.config)?;
    let rig = Rig::new(device)?;
    let model = Arc::new(Model::open_in(&rig.0, folder.path())?);
    let bench = Bench { shape, model, samples: sound(shape) };
    folder.write("clip.f32", bytemuck::cast_slice(&bench.samples))?;
    let mut rows = match device {
        Device::Cpu(cpu) => bench.cpu_rows(*cpu)?,
        Device::Cuda(_) => bench.cuda_rows(&rig)?,
    };
    if let (Extent::Every, Some(batch)) = (shape.extent, rows.last()) {
        rows.push(corpus::row(&bench, context, batch.median)?);
    }
    let codes = bench.engine(&rig, 1)?.encode(&bench.samples)?;
    let printed = printed(&folder, shape, device);
    for row in &mut rows {
        let peers = printed.iter().filter_map(|printed| printed.rows.get(&row.name)).flatten();
        row.peers.extend(peers.map(|(name, &median)| Peer { name: name.clone(), median }));
    }
    rows.extend(equal_codes(shape, &codes, &printed));
    Ok(rows)
}

impl Bench<'_> {
    fn cpu_rows(&self, cpu: Cpu) -> Result<Vec<Row>> {
        let rig = |threads| Rig::new(&Device::Cpu(Cpu { threads, ..cpu }));
        let (one, two) = (rig(1)?, rig(2)?);
        let mut rows = vec![self.clip(&two)?];
        if let Extent::Every = self.shape.extent {
            rows.push(self.clip(&one)?);
            rows.extend(self.latency(&one)?);
            rows.push(self.streams(&two, N_STREAMS_CPU)?);
            rows.push(self.clips(&two, N_CLIPS_CPU)?);
        }
        Ok(rows)
    }

    fn cuda_rows(&self, rig: &Rig) -> Result<Vec<Row>> {
        let mut rows = vec![self.clip(rig)?];
        if let Extent::Every = self.shape.extent {
            rows.extend(self.latency(rig)?);
            rows.push(self.streams(rig, N_STREAMS)?);
            rows.push(self.clips(rig, N_CLIPS)?);
        }
        Ok(rows)
    }

    fn name(&self, what: &str, rig: &Rig) -> String {
        format!("snac/encode {what} {}{}", self.shape.label, rig.suffix())
    }

    fn engine(&self, rig: &Rig, max_streams: usize) -> Result<EncodeEngine> {
        EncodeEngine::new(&self.model, rig.0.queue(), rig.0.budget(), EngineOptions::new(max_streams))
    }

    fn clip(&self, rig: &Rig) -> Result<Row> {
        self.batch(rig, "clip", 1)
    }

    fn clips(&self, rig: &Rig, n_clips: usize) -> Result<Row> {
        self.batch(rig, &format!("{n_clips} clips"), n_clips)
    }

    /// Copies of the clip in one batch, from samples in host memory to codes there.
    fn batch(&self, rig: &Rig, what: &str, n_clips: usize) -> Result<Row> {
        let mut engine = self.engine(rig, n_clips)?;
        let clips = vec![&self.samples[..]; n_clips];
        let plan = Plan { warm_up: 1, least: 3, most: 20, time: Duration::from_secs(10) };
        let mut outcome = Ok(());
        let measured = measure(plan, || outcome = engine.encode_batch(&clips).map(drop));
        outcome?;
        let row = measured.rate(&self.name(what, rig), "x", (n_clips * self.shape.clip_seconds) as f64);
        Ok(Row { ceiling: Some(cost::realtime(&self.shape.config, rig.0.device())?), ..row })
    }

    /// Measures the time from the samples of a frame to codes, in one live stream.
    fn latency(&self, rig: &Rig) -> Result<Vec<Row>> {
        let times = self.steps(rig, 1)?;
        Ok(quantiles(&self.name("one frame", rig), &times))
    }

    /// Measures streams that deliver a frame in every step: as many as the rate could be live at
    /// once.
    fn streams(&self, rig: &Rig, n_streams: usize) -> Result<Row> {
        let seconds = self.steps(rig, n_streams)?.iter().map(Duration::as_secs_f64).collect();
        let sound = n_streams as f64 * frame_time(&self.shape.config).as_secs_f64();
        Ok(of_times(seconds).rate(&self.name(&format!("{n_streams} streams"), rig), "x", sound))
    }

    fn steps(&self, rig: &Rig, n_streams: usize) -> Result<Vec<Duration>> {
        let mut engine = self.engine(rig, n_streams)?;
        let streams = (0..n_streams).map(|_| engine.open()).collect::<Result<Vec<StreamId>>>()?;
        let mut times = Vec::new();
        for frame in self.samples.chunks_exact(engine.frame_len()).cycle().take(WARM_UP + N_FRAMES) {
            let input: Vec<(StreamId, &[f32])> = streams.iter().map(|&stream| (stream, frame)).collect();
            let start = Instant::now();
            std::hint::black_box(engine.step(&input)?);
            times.push(start.elapsed());
        }
        Ok(times.split_off(WARM_UP))
    }
}

/// Returns noise whose loudness changes three times a second.
fn sound(shape: &Shape) -> Vec<f32> {
    let rate = shape.config.sampling_rate as usize;
    let mut samples = vec![0.0; shape.clip_seconds * rate];
    fill_normal(SEED, u32::MAX, 0, &mut samples);
    for (at, sample) in samples.iter_mut().enumerate() {
        let phase = 3.0 * std::f32::consts::PI * (at % rate) as f32 / rate as f32;
        *sample *= 0.02 + 0.2 * phase.sin().powi(2);
    }
    samples
}

/// Runs the peers; each part runs in its own process, so that a missing package costs only its own column.
fn printed(folder: &Folder, shape: &Shape, device: &Device) -> Vec<Printed> {
    let n_clips = N_CLIPS.to_string();
    let (parts, counts): (&[&str], &[&str]) = match (device, shape.extent) {
        (Device::Cpu(_), Extent::Every) => (&CPU_PARTS, &["1", "2"]),
        (Device::Cpu(_), Extent::Clip) => (&CPU_PARTS, &["2"]),
        (Device::Cuda(_), Extent::Every) => (&CUDA_PARTS, &["1", &n_clips]),
        (Device::Cuda(_), Extent::Clip) => (&CUDA_PARTS, &["1"]),
    };
    let path = folder.path();
    let run = |part: &&str| {
        peer(&format!("{part} of encode"), PEERS, &[&[part, path.as_str(), shape.label], counts].concat())
    };
    parts.iter().filter_map(run).filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// Returns the share of a peer's codes that equal ours, and prints the count on stderr.
fn equal_codes(shape: &Shape, codes: &Codes, printed: &[Printed]) -> Option<Row> {
    let ours = codes.levels();
    let total: usize = ours.iter().map(Vec::len).sum();
    let mut peers = Vec::new();
    for (name, theirs) in printed.iter().flat_map(|printed| &printed.codes) {
        let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
        let n_equal = pairs.filter(|(a, b)| a == b).count();
        eprintln!("note: encode {}: {n_equal} of {total} codes are equal to those of {name}", shape.label);
        peers.push(Peer { name: name.clone(), median: 100.0 * n_equal as f64 / total as f64 });
    }
    let least = peers.iter().map(|peer| peer.median).min_by(f64::total_cmp)?;
    let row = Row::single(format!("snac/encode codes equal to a peer's {}", shape.label), "%", least);
    Some(Row { peers, n: total as u64, ..row })
}
