//! The room `snac`: the published 24 kHz shape with random weights, beside PyTorch and ONNX Runtime.
//!
//! `MELISMA_BENCH_SECONDS` shortens the run of live streams; records use its default.

mod encode;
mod file;
mod frame;
mod gpu;
mod live;
mod population;
mod technique;

use std::sync::Arc;
use std::time::Duration;

use melisma::snac::noise::philox4x32;
use melisma::snac::{Codes, Config, Engine, EngineOptions, Model, Noise, Player, tokens};
use melisma::{Context, Error, Result};
use melisma_kernels::{Budget, Cpu, Device};

use super::folder::Folder;
use super::measure::{live_time, of_times};
use super::peer::{Figures, figures};
use super::{BenchContext, Peer, Plan, Row, first_call, measure, peer};

pub(super) use file::{config_json, model_folder};

const PEERS: &str = include_str!("../peers/snac.py");
const CPU_PARTS: &[&[&str]] =
    &[&["torch"], &["folded"], &["load"], &["onnxruntime"], &["slices"], &["population", "cpu"]];
const CUDA_PARTS: &[&[&str]] = &[&["cuda"], &["population", "cuda"], &["populate"]];

/// Frames of the long clip, ten seconds; the peers decode the same number.
const CLIP_FRAMES: usize = 117;
/// Live streams on two cores.
const N_LIVE: u32 = 8;
const SEED: u64 = 0;

/// A device to measure on.
struct Rig(Context);

impl Rig {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self(Context::on(device.clone(), Budget::unlimited())?))
    }

    fn engine(&self, model: &Model, max_streams: usize) -> Result<Engine> {
        Engine::new(model, self.0.queue(), self.0.budget(), EngineOptions::new(max_streams))
    }

    fn player(&self, model: &Arc<Model>) -> Result<Player> {
        Player::new(model, self.0.queue(), self.0.budget(), Noise::default())
    }

    /// Returns the suffix of row names for the device.
    fn suffix(&self) -> String {
        match self.0.device() {
            Device::Cpu(cpu) => format!(" {}t", cpu.threads),
            Device::Cuda(_) => String::new(),
        }
    }
}

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let live = live_time()?;
    let model = Arc::new(Model::random(Config::snac_24khz(), SEED)?);
    let (parts, mut rows) = match context.device {
        Device::Cpu(cpu) => (CPU_PARTS, cpu_rows(*cpu, &model, live)?),
        Device::Cuda(_) => (CUDA_PARTS, gpu::rows(&Rig::new(context.device)?, &model, live)?),
    };
    rows.push(first_call(context.device)?);
    let mut figures = figures("PyTorch and ONNX Runtime", PEERS, parts);
    rows.extend(population::python_rows(&mut figures));
    for row in &mut rows {
        let peers = figures.get(&row.name).into_iter().flatten();
        row.peers.extend(peers.map(|(name, &median)| Peer { name: name.clone(), median }));
    }
    rows.extend(population::speedups(&rows));
    rows.extend(encode::rows(context)?);
    Ok(rows)
}

/// Measures the encoder alone.
pub(super) fn encode_rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    encode::rows(context)
}

fn cpu_rows(cpu: Cpu, model: &Arc<Model>, live: Duration) -> Result<Vec<Row>> {
    let rig = |threads| Rig::new(&Device::Cpu(Cpu { threads, ..cpu }));
    let (one, two) = (rig(1)?, rig(2)?);
    let mut rows = vec![clip(model, &one)?, clip(model, &two)?];
    rows.extend(frame::rows(model, &one)?);
    rows.extend(live::rows(&two, model, N_LIVE, live)?);
    rows.extend(file::rows(&two)?);
    rows.extend(population::rows());
    rows.extend(technique::rows(model, &one)?);
    Ok(rows)
}

/// Measures from program start to the end of the first second of audio.
fn first_call(device: &Device) -> Result<Row> {
    const N_FRAMES: usize = 12;
    let folder = Folder::create("snac-first")?;
    let [tokens, sound] = ["tokens.txt", "sound.wav"].map(|name| folder.0.join(name));
    let model = Model::mini24()?;
    let text = tokens::to_orpheus(&model, &codes(model.config(), N_FRAMES)?)?;
    std::fs::write(&tokens, text).map_err(|error| Error::io(tokens.display(), error))?;
    let device = device.to_string();
    let arguments = ["decode".as_ref(), tokens.as_os_str(), "-o".as_ref(), sound.as_os_str(), "--device".as_ref()];
    let flags = [device.as_ref(), "--force".as_ref(), "--quiet".as_ref()];
    first_call::row("snac/first call in a fresh process, builtin model, 12 frames", &[&arguments[..], &flags].concat())
}

fn clip(model: &Model, rig: &Rig) -> Result<Row> {
    let codes = codes(model.config(), CLIP_FRAMES)?;
    let mut engine = rig.engine(model, 1)?;
    let plan = Plan { warm_up: 1, least: 3, most: 9, time: Duration::from_secs(10) };
    let mut outcome = Ok(());
    let measured = measure(plan, || outcome = engine.decode(&codes, &Noise::default()).map(drop));
    outcome?;
    let seconds = CLIP_FRAMES as f64 * frame_time(model.config()).as_secs_f64();
    Ok(measured.rate(&format!("snac/clip{}", rig.suffix()), "x", seconds))
}

/// Returns consecutive frames, the same for every run.
fn frames(config: &Config, n_frames: usize) -> Vec<i32> {
    let n_codes = (n_frames * config.n_slots()) as u32;
    (0..n_codes).map(|i| philox4x32([i, 0, 0, 0], [1, 0])[0] as i32 & 0xFFF).collect()
}

pub(super) fn codes(config: &Config, n_frames: usize) -> Result<Codes> {
    Codes::from_frames(config, &frames(config, n_frames))
}

/// Returns the playing time of a frame.
pub(super) fn frame_time(config: &Config) -> Duration {
    Duration::from_secs_f64(config.frame_len() as f64 / f64::from(config.sampling_rate))
}

/// Returns the median and 99th percentile of `times` as two rows.
fn quantiles(name: &str, times: &[Duration]) -> Vec<Row> {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    measure::quantiles(name, &seconds, &[("p50", 0.5), ("p99", 0.99)])
}
