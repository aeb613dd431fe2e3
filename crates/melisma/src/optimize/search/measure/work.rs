//! Measures a candidate in this process.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Done, Spec, Task, hard_limit};
use crate::config::precision::Format;
use crate::engine::{Engine, EngineName, Operator, rten};
use crate::format::{Value, npy};
use crate::onnx::synthetic::{self, Snac};
use crate::optimize::search::candidate::engines::open_from;
use crate::optimize::search::candidate::{Candidate, Chunk, EngineSettings, prepare};
use crate::output::{self, Existing};
use crate::runtime::machine::peak_resident_bytes;
use crate::runtime::memory::Budget;
use crate::{DType, Result};

const WARM_UP_RUNS: usize = 3;
const FEWEST_RUNS: usize = 5;

/// Executes `spec` in this process, within `budget`.
///
/// # Errors
/// The model cannot be read or run.
pub fn work(spec: &Spec, budget: &Budget) -> Result<Done> {
    let begin = Instant::now();
    hard_limit::limit(spec)?;
    if spec.task == Task::Start {
        return started(spec, budget);
    }
    let model = prepare::read(&spec.model, budget)?;
    let profile_folder = (spec.task == Task::Profile).then(|| spec.outputs.clone());
    let settings = EngineSettings { profile_folder, ..spec.settings.clone() };
    let mut engine = open_from(model, &spec.candidate, &settings, budget)?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let mut outputs = Vec::new();
    let mut first_seconds = 0.0;
    let (mut seconds, mut operators) = (Vec::new(), Vec::new());
    for (index, set) in spec.inputs.iter().enumerate() {
        let inputs = read(set)?;
        let begin = Instant::now();
        let values = if spec.task == Task::Trace { engine.trace(&inputs)? } else { engine.run(&inputs)? };
        let took = begin.elapsed().as_secs_f64();
        outputs.push(write(&values, &spec.outputs, index)?);
        if index == 0 {
            first_seconds = took;
            drop(values);
            match spec.task {
                Task::Measure if spec.seconds > 0.0 => seconds = timed(|| engine.run(&inputs).map(drop), spec)?,
                Task::Measure | Task::Trace | Task::Start => {}
                Task::Repeat => seconds = engine.repeat(&inputs, spec.most_runs, &|| Ok(()))?,
                Task::Profile => (seconds, operators) = profiled(engine.as_mut(), &inputs)?,
            }
        }
    }
    let (engine, peak_bytes) = (engine.name(), peak_resident_bytes());
    Ok(Done { engine, load_seconds, first_seconds, seconds, peak_bytes, outputs, operators })
}

/// Runs a tiny model to load the engine's code, tables and threads into memory: in ONNX Runtime for its own candidates,
/// else in the embedded engine.
fn started(spec: &Spec, budget: &Budget) -> Result<Done> {
    let model = synthetic::snac_decoder(&Snac { latent_dim: 8, dim: 16, strides: &[2] }, 0)?;
    let engine = if spec.candidate.engine == EngineName::Onnxruntime { EngineName::Onnxruntime } else { rten::NAME };
    let candidate = Candidate { engine, precision: Format::Fp32, chunk: Chunk::Own, ..spec.candidate };
    open_from(model, &candidate, &spec.settings, budget)?.run(&[Value::zeros(DType::F32, &[1, 8, 64])?])?;
    Ok(Done {
        engine: spec.candidate.engine,
        load_seconds: 0.0,
        first_seconds: 0.0,
        seconds: Vec::new(),
        peak_bytes: peak_resident_bytes(),
        outputs: Vec::new(),
        operators: Vec::new(),
    })
}

fn profiled(engine: &mut dyn Engine, inputs: &[Value]) -> Result<(Vec<f64>, Vec<Operator>)> {
    let begin = Instant::now();
    let (_, mut operators) = engine.profile(inputs)?;
    let seconds = begin.elapsed().as_secs_f64();
    Operator::add(&mut operators, engine.end_profile()?);
    Ok((vec![seconds], operators))
}

fn timed(mut run: impl FnMut() -> Result<()>, spec: &Spec) -> Result<Vec<f64>> {
    let begin = Instant::now();
    for _ in 0..WARM_UP_RUNS {
        run()?;
        if begin.elapsed().as_secs_f64() > spec.seconds / 2.0 {
            break;
        }
    }
    let (begin, mut seconds) = (Instant::now(), Vec::new());
    while seconds.len() < spec.most_runs.max(FEWEST_RUNS) {
        if seconds.len() >= FEWEST_RUNS && begin.elapsed().as_secs_f64() > spec.seconds {
            break;
        }
        let begin = Instant::now();
        run()?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

pub(in crate::optimize::search) fn read(files: &[PathBuf]) -> Result<Vec<Value>> {
    files.iter().map(npy::read).collect()
}

pub(in crate::optimize::search) fn write(values: &[Value], folder: &Path, set: usize) -> Result<Vec<PathBuf>> {
    let file = |(index, value): (usize, &Value)| {
        let path = folder.join(format!("{set}_{index}.npy"));
        output::write(&path, &npy::encode(value), Existing::Replace).map(|()| path)
    };
    values.iter().enumerate().map(file).collect()
}
