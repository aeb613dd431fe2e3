//! A candidate, measured in a process of its own.
//!
//! # Why a process?
//!
//! A crash, a hang or a memory peak then belongs to one candidate, and the threads and allocators
//! of one engine do not disturb the next.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::engines::open_from;
use super::{Candidate, EngineSettings, hard, operators, prepare};
use crate::engine::{Engine, EngineName, Operator};
use crate::format::{Value, npy};
use crate::runtime::machine::{peak_resident_bytes, peak_resident_bytes_of};
use crate::runtime::output::{self, Existing};
use crate::runtime::size;
use crate::{Error, Kind, Result};

/// A candidate that takes longer than this is ended.
const PATIENCE: Duration = Duration::from_secs(600);
/// The file in [`Spec::outputs`] that a worker answers in.
const ANSWER: &str = "answer.json";
const WARM_UP_RUNS: usize = 3;
const FEWEST_RUNS: usize = 5;
/// Operators together take no longer than their run; more is not believed.
const MOST_SHARE: f64 = 1.25;
/// The signal of a system whose memory is short.
const KILL: i32 = 9;

/// What measures candidates.
#[derive(Debug, Clone)]
pub enum Worker {
    /// A program that is given the path of a [`Spec`] as its last argument and calls [`serve`](super::serve).
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
    pub settings: EngineSettings,
    /// Files of inputs, set by set.
    pub inputs: Vec<Vec<PathBuf>>,
    /// Where outputs go.
    pub outputs: PathBuf,
    /// About how long to measure; 0 gives outputs only.
    pub seconds: f64,
    /// The most runs to measure.
    pub most_runs: usize,
    /// A process that takes more memory is ended.
    pub most_bytes: Option<u64>,
    /// What the runs are for.
    pub task: Task,
}

/// What the runs of a worker are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Times of runs.
    Measure,
    /// Times of operators in one run.
    Profile,
    /// Which nodes a run comes to, printed as each ends.
    Trace,
    /// The memory of the process itself: nothing is loaded.
    Start,
}

/// What a worker measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The engine that was opened: for `melisma` the one of ours that takes the model.
    pub engine: EngineName,
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
    /// Times of operators, as far as the engine hands them over.
    pub operators: Vec<Operator>,
}

/// What a worker leaves in the file [`ANSWER`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done(Done),
    Failed { kind: String, message: String, hint: Option<String> },
}

/// Kinds of errors that come back from a worker; any other is `Unsupported`.
const KINDS: [Kind; 8] = [
    Kind::InvalidArgument,
    Kind::Corrupt,
    Kind::Truncated,
    Kind::Version,
    Kind::Device,
    Kind::Memory,
    Kind::Io,
    Kind::Check,
];

impl Answer {
    pub(super) fn failed(error: &Error, hint: Option<String>) -> Self {
        Self::Failed { kind: format!("{:?}", error.kind()), message: error.to_string(), hint }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| Error::invalid(error.to_string()))?;
        output::write(&folder.join(ANSWER), &text, Existing::Replace)
    }

    /// The answer in `folder`; none where the worker ended without one.
    fn read(folder: &Path) -> Option<Result<Done>> {
        let text = std::fs::read(folder.join(ANSWER)).ok()?;
        Some(match serde_json::from_slice(&text).ok()? {
            Self::Done(done) => Ok(done),
            Self::Failed { kind, message, hint } => {
                let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind).unwrap_or(Kind::Unsupported);
                let error = Error::new(kind, message);
                Err(match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                })
            }
        })
    }
}

/// Does what `spec` says, in this process.
///
/// # Errors
/// The model cannot be read or run.
pub fn work(spec: &Spec) -> Result<Done> {
    let begin = Instant::now();
    hard::limit(spec)?;
    if spec.task == Task::Start {
        return Ok(started(spec));
    }
    let model = prepare::given(&spec.model)?;
    let profile_folder = (spec.task == Task::Profile).then(|| spec.outputs.clone());
    let settings = EngineSettings { profile_folder, ..spec.settings.clone() };
    let mut engine = open_from(model, &spec.candidate, &settings)?;
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
                Task::Profile => (seconds, operators) = profiled(engine.as_mut(), &inputs)?,
            }
        }
    }
    let (engine, peak_bytes) = (engine.name(), peak_resident_bytes());
    Ok(Done { engine, load_seconds, first_seconds, seconds, peak_bytes, outputs, operators })
}

fn started(spec: &Spec) -> Done {
    Done {
        engine: spec.candidate.engine,
        load_seconds: 0.0,
        first_seconds: 0.0,
        seconds: Vec::new(),
        peak_bytes: peak_resident_bytes(),
        outputs: Vec::new(),
        operators: Vec::new(),
    }
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

pub(in crate::optimize) fn read(files: &[PathBuf]) -> Result<Vec<Value>> {
    files.iter().map(|path| npy::read(path)).collect()
}

pub(in crate::optimize) fn write(values: &[Value], folder: &Path, set: usize) -> Result<Vec<PathBuf>> {
    let file = |(index, value): (usize, &Value)| {
        let path = folder.join(format!("{set}_{index}.npy"));
        output::write(&path, &npy::write(value), Existing::Replace).map(|()| path)
    };
    values.iter().enumerate().map(file).collect()
}

impl Worker {
    /// Processes of this program, which gets `arguments` and then the path of a [`Spec`].
    ///
    /// # Errors
    /// The system does not say which program this is.
    pub fn this_program(arguments: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
        let arguments = arguments.iter().map(OsString::from);
        Ok(Self::Program(std::iter::once(program.into()).chain(arguments).collect()))
    }

    /// Measures as `spec` says.
    ///
    /// # Errors
    /// The candidate does not take the model, fails, crashes, takes too long or more memory than it may.
    pub fn measure(&self, spec: &Spec) -> Result<Done> {
        match self {
            // A limit would stay with this process.
            Self::Here => work(&Spec { most_bytes: None, ..spec.clone() }),
            Self::Program(program) => in_process(program, spec).map(|(done, _)| done),
        }
    }

    /// The memory that a worker takes before it loads anything; none where candidates run in this process.
    pub(super) fn process_bytes(&self, spec: &Spec) -> Option<u64> {
        let Self::Program(program) = self else { return None };
        let spec = Spec { task: Task::Start, most_bytes: None, ..spec.clone() };
        in_process(program, &spec).ok()?.0.peak_bytes
    }

    /// Where the time of a run goes, the slowest operator first. Engines print some of it, so only a process has it.
    ///
    /// # Errors
    /// As [`Worker::measure`].
    pub fn operators(&self, spec: &Spec) -> Result<Vec<Operator>> {
        let Self::Program(program) = self else { return Ok(Vec::new()) };
        let (done, said) = in_process(program, &Spec { task: Task::Profile, ..spec.clone() })?;
        let mut all = done.operators;
        Operator::add(&mut all, operators::parse(&said));
        let total: f64 = all.iter().map(|operator| operator.seconds).sum();
        let whole: f64 = done.seconds.iter().sum();
        // Times are printed in hundredths of milliseconds.
        if total > MOST_SHARE * whole + 1e-5 * all.len() as f64 {
            return Err(Error::new(Kind::Check, format!("operators of {total} s in a run of {whole} s")));
        }
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(all)
    }
}

/// What a worker answers, and what it printed before.
fn in_process(program: &[OsString], spec: &Spec) -> Result<(Done, String)> {
    // A folder may be used again, and an old answer must not count.
    let _ = std::fs::remove_file(spec.outputs.join(ANSWER));
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
        // Open for as long as this process lives: a worker ends with it.
        .stdin(Stdio::piped())
        .stdout(file(&out)?)
        .stderr(file(&err)?)
        .spawn()
        .map_err(|error| Error::io(name.to_string_lossy(), error))?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| Error::io(name.to_string_lossy(), error))? {
            break status;
        }
        let is_over = |most: &u64| peak_resident_bytes_of(child.id()).is_some_and(|peak| peak > *most);
        let reason = match spec.most_bytes.filter(is_over) {
            Some(most) => Error::new(Kind::Memory, format!("it takes more than {}", size::show(most))),
            None if begin.elapsed() > PATIENCE => {
                Error::new(Kind::Device, format!("it took more than {} s", PATIENCE.as_secs()))
            }
            None => {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
        };
        // It may have ended in the meantime.
        let _ = child.kill();
        let _ = child.wait();
        return Err(reason);
    };
    let said = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    if let Some(answer) = Answer::read(&spec.outputs) {
        return Ok((answer?, said(&out)));
    }
    if status.signal() == Some(KILL) {
        return Err(Error::new(Kind::Memory, "the system ended it, as it does when memory is short"));
    }
    let crashed = || Error::unsupported(format!("it crashed: {status}"));
    Err(hard::refused(&said(&err)).unwrap_or_else(crashed))
}
