//! A folder of 16-bit WAV files in the page cache to tokens in a `.safetensors` file, end to end.

use std::sync::Arc;

use melisma::Existing;
use melisma::audio::{Channel, Clip, wav};
use melisma::dataset::{Request, Tokens};
use melisma::runtime::device::Device;
use melisma::{Context, Result};

use super::super::of_times;
use super::Bench;
use crate::dataset::corpus::{Corpus, Disk};
use crate::forecast::id;
use crate::{BenchContext, Row};

const FILES: usize = 8;
const FILES_CUDA: usize = 2000;
const RUNS: usize = 3;

/// Measures the rate of the whole build; its ceiling is `engine_rate`, that of the engine alone.
pub(super) fn row(bench: &Bench<'_>, context: BenchContext<'_>, engine_rate: f64) -> Result<Row> {
    let (n_files, disk) = match context.device {
        Device::Cpu(_) => (FILES, Disk::Temporary),
        Device::Cuda(_) => (FILES_CUDA, Disk::Shared),
    };
    let clip = Clip::mono(bench.shape.config.sampling_rate, bench.samples.clone());
    let content = wav::encode(&clip, wav::SampleFormat::S16)?;
    let corpus = Corpus::of(n_files, disk, |_| &content)?;
    let output = corpus.folder().join("tokens.safetensors");
    let mut times = Vec::new();
    let exec = Context::on(context.device.clone(), context.memory.clone())?;
    // The first run warms the page cache.
    for _ in 0..=RUNS {
        let tokens = Tokens::new(Arc::clone(&bench.model)).with_channel(Channel::default());
        let request = Request::new_in(&exec, &corpus.inputs, &output, tokens);
        let outcome = request.with_existing(Existing::Replace).with_stop_on_failure(true).build()?;
        times.push(outcome.scan_seconds + outcome.wall_seconds);
    }
    let seconds = (n_files * bench.shape.clip_seconds) as f64;
    let name = format!("snac/encode corpus of {n_files} files {}", bench.shape.label);
    let row = Row { ceiling: Some(engine_rate), ..of_times(times.split_off(1)).rate(&name, "x", seconds) };
    let is_24_khz = bench.shape.config.sampling_rate == 24_000;
    Ok(if is_24_khz { row.with_id(id::TOKEN_BUILD) } else { row })
}
