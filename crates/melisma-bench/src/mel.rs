//! The room `mel`: spectrograms of clips in memory, beside numpy, torchaudio, librosa and, on a GPU, flashmel.

use std::collections::BTreeMap;

use half::f16;
use melisma::Result;
use melisma::mel::Config;
use melisma_kernels::signal::mel::Batch;
use melisma_kernels::{Buffer, Device};

use super::{BenchContext, Measured, Peer, Plan, Row, measure, peer};

const PEERS: &str = include_str!("../peers/mel.py");
/// Each peer runs in its own process, so that a missing package costs only its own column.
const CPU_PEERS: &[&str] = &["numpy", "torchaudio", "librosa"];
const CUDA_PEERS: &[&str] = &["torchaudio-cuda", "flashmel", "torchaudio-autocast"];
/// Clips per run, ten seconds each.
const CLIPS: usize = 32;
const CLIPS_CUDA: usize = 2048;

/// The two measured shapes: points, hop, rate.
const SHAPES: [(usize, usize, u32); 2] = [(1024, 256, 22_050), (400, 160, 16_000)];

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let (names, suffix, n_clips) = match context.device {
        Device::Cpu(cpu) => (CPU_PEERS, format!("{}t", cpu.threads), CLIPS),
        Device::Cuda(_) => (CUDA_PEERS, "cuda".to_owned(), CLIPS_CUDA),
    };
    let threads = if let Device::Cpu(cpu) = context.device { cpu.threads } else { 1 };
    let figures = |name: &str| -> BTreeMap<String, f64> {
        let found = peer(name, PEERS, &[name, &threads.to_string()]);
        found.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    };
    let before: Vec<_> = names.iter().map(|name| (*name, figures(name))).collect();
    let mut rows = Vec::new();
    for (n_fft, hop, rate) in SHAPES {
        let measured = ours(context, (n_fft, hop, rate), n_clips)?;
        let frames = n_clips * (1 + rate as usize * 10 / hop);
        let name = format!("mel/{n_fft}-{hop}-80 i16 to log f16, {suffix}");
        let mut row = measured.rate(&name, "Mframes/s", frames as f64 / 1e6);
        let key = format!("{n_fft}-{hop}");
        let peers = before.iter().filter_map(|(name, figures)| Some((name, *figures.get(&key)?)));
        row.peers.extend(peers.map(|(name, median)| Peer { name: (*name).to_owned(), median }));
        rows.push(row);
    }
    Ok(rows)
}

/// Measures seconds for all clips, which are in the device's memory.
fn ours(context: BenchContext<'_>, (n_fft, hop, rate): (usize, usize, u32), n_clips: usize) -> Result<Measured> {
    let mut config = Config::preset("builder")?;
    let changes = [format!("sample_rate={rate}"), format!("n_fft={n_fft}"), format!("hop_length={hop}")];
    changes.iter().try_for_each(|change| config.set(change))?;
    let n_samples = rate as usize * 10;
    let n_frames = config.n_frames(n_samples)?;
    let plan = config.plan(context.device, context.memory.budget())?;
    let queue = context.device.queue(context.memory.budget())?;
    let batch = Batch { n_items: n_clips, n_samples, n_frames };
    let integers: Vec<i16> =
        (0..n_clips * n_samples).map(|i| ((i as u32).wrapping_mul(40_503) >> 8) as i16 / 4).collect();
    let n_values = n_clips * n_frames * 80;
    let buffer = |bytes: usize| match context.device {
        Device::Cpu(_) => Buffer::host(context.memory.budget(), bytes),
        Device::Cuda(cuda) => Buffer::device(cuda, context.memory.budget(), bytes),
    };
    let (mut samples, mut values) = (buffer(integers.len() * 2)?, buffer(n_values * 2)?);
    queue.copy(integers.as_slice().into(), samples.view_mut::<i16>()?)?;
    let mut outcome = Ok(());
    let measured = measure(Plan::default(), || {
        outcome = (|| {
            plan.run::<i16, f16>(&queue, batch, samples.view()?, values.view_mut()?)?;
            queue.synchronize()
        })();
    });
    outcome.map(|()| measured)
}
