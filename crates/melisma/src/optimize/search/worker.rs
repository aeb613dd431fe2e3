//! A candidate, measured in a process of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Candidate, Surroundings, open};
use crate::optimize::onnx::Model;
use crate::optimize::value::{Value, npy};
use crate::runtime::machine::peak_resident_bytes;
use crate::runtime::output::{self, Existing};
use crate::{Error, Kind, Result};

/// A candidate that takes longer than this is ended.
const PATIENCE: Duration = Duration::from_secs(600);
const WARM_UP_RUNS: usize = 3;
const FEWEST_RUNS: usize = 5;

/// What measures candidates.
#[derive(Debug, Clone)]
pub enum Worker {
    /// A program that is given the path of a [`Spec`] as its last argument and calls [`work`].
    Program(Vec<OsString>),
    /// This process: peaks of memory are then those of everything in it.
    Here,
}

/// What a worker is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The model, with the candidate's precision.
    pub model: PathBuf,
    /// What to try.
    pub candidate: Candidate,
    /// What engines are told beside it.
    pub surroundings: Surroundings,
    /// Files of inputs, set by set.
    pub inputs: Vec<Vec<PathBuf>>,
    /// Where outputs go.
    pub outputs: PathBuf,
    /// About how long to measure; 0 gives outputs only.
    pub seconds: f64,
    /// The most runs to measure.
    pub most_runs: usize,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// From the file to an engine that can run.
    pub load_seconds: f64,
    /// The first run.
    pub first_seconds: f64,
    /// The runs after warm-up.
    pub seconds: Vec<f64>,
    /// The most physical memory.
    pub peak_bytes: Option<u64>,
    /// Files of outputs, set by set.
    pub outputs: Vec<Vec<PathBuf>>,
}

/// Does what `spec` says, in this process.
///
/// # Errors
/// The model cannot be read or run.
pub fn work(spec: &Spec) -> Result<Done> {
    let begin = Instant::now();
    let model = Model::open(&spec.model)?;
    let mut engine = open(&model, &spec.candidate, &spec.surroundings)?;
    drop(model);
    let load_seconds = begin.elapsed().as_secs_f64();
    let mut outputs = Vec::new();
    let mut first_seconds = f64::NAN;
    let mut seconds = Vec::new();
    for (index, set) in spec.inputs.iter().enumerate() {
        let inputs = read(set)?;
        let begin = Instant::now();
        let values = engine.run(&inputs)?;
        let took = begin.elapsed().as_secs_f64();
        outputs.push(write(&values, &spec.outputs, index)?);
        if index == 0 {
            first_seconds = took;
            if spec.seconds > 0.0 {
                drop(values);
                seconds = timed(|| engine.run(&inputs).map(drop), spec)?;
            }
        }
    }
    Ok(Done { load_seconds, first_seconds, seconds, peak_bytes: peak_resident_bytes(), outputs })
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

pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Value>> {
    files.iter().map(|path| npy::read(path)).collect()
}

pub(super) fn write(values: &[Value], folder: &Path, set: usize) -> Result<Vec<PathBuf>> {
    let file = |(index, value): (usize, &Value)| {
        let path = folder.join(format!("{set}_{index}.npy"));
        output::write(&path, &npy::write(value), Existing::Replace).map(|()| path)
    };
    values.iter().enumerate().map(file).collect()
}

impl Worker {
    /// Measures as `spec` says.
    ///
    /// # Errors
    /// The candidate does not take the model, fails, crashes, or takes too long.
    pub fn measure(&self, spec: &Spec) -> Result<Done> {
        match self {
            Self::Here => work(spec),
            Self::Program(program) => in_process(program, spec),
        }
    }
}

fn in_process(program: &[OsString], spec: &Spec) -> Result<Done> {
    let path = spec.outputs.join("spec.json");
    let text = serde_json::to_vec(spec).map_err(|error| Error::invalid(error.to_string()))?;
    output::write(&path, &text, Existing::Replace)?;
    let Some((name, arguments)) = program.split_first() else {
        return Err(Error::invalid("no program to measure with"));
    };
    let (out, err) = (spec.outputs.join("stdout"), spec.outputs.join("stderr"));
    let file = |path: &Path| std::fs::File::create(path).map_err(|error| output::failed(path, error));
    let mut child = Command::new(name)
        .args(arguments)
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(file(&out)?)
        .stderr(file(&err)?)
        .spawn()
        .map_err(|error| Error::io(name.to_string_lossy(), error))?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| Error::io(name.to_string_lossy(), error))? {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                // It may have ended in the meantime.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::new(Kind::Device, format!("it took more than {} s", PATIENCE.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let text = std::fs::read(&out).map_err(|error| Error::io(out.display(), error))?;
    if status.success() {
        return serde_json::from_slice(&text).map_err(|error| Error::new(Kind::Device, format!("the worker: {error}")));
    }
    let said = std::fs::read(&err).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find_map(|line| line.strip_prefix("error: "));
    Err(Error::new(Kind::Unsupported, line.map_or_else(|| format!("it crashed: {status}"), str::to_owned)))
}
