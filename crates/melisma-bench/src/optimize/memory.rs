//! Peak memory for a minute of audio under two profiles, and the size of weights in FP16.

use std::path::Path;

use melisma::config::precision::Format;
use melisma::engine::ours::chain;
use melisma::engine::{EngineName, rten};
use melisma::format::{Value, npy};
use melisma::onnx::pass;
use melisma::onnx::synthetic::{Snac, snac_decoder, whisper_encoder};
use melisma::optimize::search::{Candidate, Chunk, EngineSettings, Spec, Task, compare};
use melisma::output::{self, Existing};
use melisma::{DType, Error, ErrorKind, Result};

use super::worker;
use crate::{Peer, Row};

/// Latents of 60 s at 24 kHz.
const LATENTS: usize = 60 * 24_000 / 512 + 1;
const TOLERANCE: f64 = 1e-3;

pub(super) fn rows(folder: &Path, threads: usize) -> Result<Vec<Row>> {
    Ok(vec![minute(folder, threads)?, halves()?])
}

/// Measures the peak memory of processes that decode a minute of audio.
fn minute(folder: &Path, threads: usize) -> Result<Row> {
    let model = folder.join("snac-decoder.onnx");
    output::write(&model, &snac_decoder(&Snac::SNAC_24KHZ, 1)?.to_bytes()?, Existing::Replace)?;
    let mut z = Value::zeros(DType::F32, &[1, 768, LATENTS])?;
    for (index, value) in z.as_mut_slice::<f32>()?.iter_mut().enumerate() {
        *value = ((index as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0;
    }
    let input = folder.join("minute.npy");
    output::write(&input, &npy::encode(&z), Existing::Replace)?;
    let run = |name: &str, threads: usize, chunk: Chunk, engine: EngineName| {
        let outputs = folder.join(name);
        std::fs::create_dir_all(&outputs).map_err(|error| output::failed(&outputs, error))?;
        let spec = Spec {
            model: model.clone(),
            candidate: Candidate::new(engine, Format::Fp32, threads, chunk),
            settings: EngineSettings::cpu(),
            inputs: vec![vec![input.clone()]],
            outputs,
            seconds: 0.0,
            most_runs: 1,
            most_bytes: None,
            task: Task::Measure,
        };
        let done = worker()?.measure(&spec)?;
        let peak = done.peak_bytes.ok_or_else(|| Error::unsupported("this system does not tell peaks"))?;
        Ok::<_, Error>((peak as f64, npy::read(&done.outputs[0][0])?))
    };
    let ours = |profile: &str| {
        let tried = Chunk::tried(&super::config(profile, threads)?, chain::NAME);
        Ok::<_, Error>(tried.first().copied().unwrap_or_default())
    };
    let (training, sound) = run("training", 1, ours("training")?, chain::NAME)?;
    let mut row = Row::single("optimize/snac decoder, 60 s, peak of training", "bytes", training);
    let others = [
        ("emergency", chain::NAME, ours("emergency")?),
        ("field", chain::NAME, ours("field")?),
        ("rten", rten::NAME, Chunk::Own),
    ];
    for (name, engine, chunk) in others {
        let (peak, other) = run(name, threads, chunk, engine)?;
        let accuracy = compare(std::slice::from_ref(&other), std::slice::from_ref(&sound))?;
        if accuracy.relative > TOLERANCE {
            return Err(Error::new(ErrorKind::Check, format!("{name}: {:e} from training", accuracy.relative)));
        }
        row.peers.push(Peer { name: name.to_owned(), median: peak });
    }
    Ok(row)
}

/// Measures the file size of a model in FP16.
fn halves() -> Result<Row> {
    let mut model = whisper_encoder(1)?;
    let whole = model.to_bytes()?.len();
    pass::to_half(&mut model, &Default::default())?;
    let mut row = Row::single("optimize/whisper encoder, fp16", "bytes", model.to_bytes()?.len() as f64);
    row.peers = vec![Peer { name: "fp32".to_owned(), median: whole as f64 }];
    Ok(row)
}
