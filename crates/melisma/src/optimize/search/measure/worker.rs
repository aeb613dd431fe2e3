//! Measures a candidate in its own process.
//!
//! # Why a process?
//!
//! A crash, a hang or a memory peak then belongs to one candidate, and the threads and allocators
//! of one engine do not disturb the next.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::spec::{Answer, forget};
use super::{Done, Spec, Task, hard_limit, work};
use crate::engine::Operator;
use crate::engine::rten::profile;
use crate::output::{self, Existing};
use crate::runtime::machine::peak_resident_bytes_of;
use crate::runtime::memory::Budget;
use crate::text::size;
use crate::{Error, ErrorKind, Result};

/// A candidate that takes longer than this is killed; so is one that repeats a run, after this time for each.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Limit on the summed operator times, relative to their run; a larger sum means a wrong profile.
const MAX_SHARE: f64 = 1.25;
/// The signal that the system sends when it runs out of memory.
const KILL: i32 = 9;

/// Where candidates are measured.
#[derive(Debug, Clone)]
pub enum Worker {
    /// A process for each of them.
    Program(Program),
    /// This process, within a budget; peak memory then includes everything else in it.
    Here(Budget),
}

/// A program that receives the path of a [`Spec`] as its last argument and calls
/// `serve`.
#[derive(Debug, Clone)]
pub struct Program {
    command: Vec<OsString>,
    stop: Arc<AtomicBool>,
}

impl Program {
    /// Returns the program and its first arguments.
    pub fn new(command: Vec<OsString>) -> Self {
        Self { command, stop: Arc::default() }
    }

    /// Kills running processes once `stop` is set, and starts no others.
    #[must_use]
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// Fails once the work was asked to stop.
    ///
    /// # Errors
    /// The work was asked to stop.
    fn check_stop(&self) -> Result<()> {
        if self.stop.load(Relaxed) { Err(Error::invalid("the search was stopped")) } else { Ok(()) }
    }
}

impl Worker {
    /// Starts processes of this program with `arguments` and the path of a [`Spec`].
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub fn this_program(arguments: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
        let arguments = arguments.iter().map(OsString::from);
        Ok(Self::Program(Program::new(std::iter::once(program.into()).chain(arguments).collect())))
    }

    /// Measures according to `spec`.
    ///
    /// # Errors
    /// The candidate rejects the model, fails, crashes, takes too long, or exceeds its memory
    /// limit.
    pub fn measure(&self, spec: &Spec) -> Result<Done> {
        match self {
            // A limit would persist in this process.
            Self::Here(budget) => work(&Spec { most_bytes: None, ..spec.clone() }, budget),
            Self::Program(program) => in_process(program, spec).map(|(done, _)| done),
        }
    }

    /// Returns the memory of a worker without a model, which is the program's own; `None` if candidates run in this
    /// process.
    pub(in crate::optimize::search) fn process_bytes(&self, spec: &Spec) -> Option<u64> {
        let Self::Program(program) = self else { return None };
        let spec = Spec { task: Task::Start, most_bytes: None, ..spec.clone() };
        in_process(program, &spec).ok()?.0.peak_bytes
    }

    /// Returns the time per operator in a run, slowest first. Some engines only print it, so it
    /// requires a separate process.
    ///
    /// # Errors
    /// As [`Worker::measure`].
    pub fn operators(&self, spec: &Spec) -> Result<Vec<Operator>> {
        let Self::Program(program) = self else { return Ok(Vec::new()) };
        let (done, said) = in_process(program, &Spec { task: Task::Profile, ..spec.clone() })?;
        let mut all = done.operators;
        Operator::add(&mut all, profile::parse(&said));
        let total: f64 = all.iter().map(|operator| operator.seconds).sum();
        let whole: f64 = done.seconds.iter().sum();
        // Times are printed in hundredths of a millisecond.
        if total > MAX_SHARE * whole + 1e-5 * all.len() as f64 {
            return Err(Error::new(ErrorKind::Check, format!("operators of {total} s in a run of {whole} s")));
        }
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(all)
    }
}

/// Returns the worker's answer and everything that it printed.
fn in_process(program: &Program, spec: &Spec) -> Result<(Done, String)> {
    program.check_stop()?;
    forget(&spec.outputs);
    let path = spec.outputs.join("spec.json");
    let text = serde_json::to_vec(spec).map_err(|error| Error::invalid(error.to_string()))?;
    output::write(&path, &text, Existing::Replace)?;
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(Error::invalid("no program to measure with"));
    };
    let (out, err) = (spec.outputs.join("stdout"), spec.outputs.join("stderr"));
    let file = |path: &Path| std::fs::File::create(path).map_err(|error| output::failed(path, error));
    let mut child = Command::new(name)
        .args(arguments)
        .arg(&path)
        // The pipe stays open while this process lives, so a worker ends with it.
        .stdin(Stdio::piped())
        .stdout(file(&out)?)
        .stderr(file(&err)?)
        .spawn()
        .map_err(|error| Error::io(name.to_string_lossy(), error))?;
    let runs = if spec.task == Task::Repeat { spec.most_runs.saturating_add(1) } else { 1 };
    let timeout = TIMEOUT.saturating_mul(u32::try_from(runs).unwrap_or(u32::MAX));
    let beside = hard_limit::program_bytes(spec);
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| Error::io(name.to_string_lossy(), error))? {
            break status;
        }
        let is_over =
            |most: &u64| peak_resident_bytes_of(child.id()).is_some_and(|peak| peak > most.saturating_add(beside));
        let reason = match spec.most_bytes.filter(is_over) {
            Some(most) => Error::new(ErrorKind::Memory, format!("it needs more than {}", size::show(most))),
            None if begin.elapsed() > timeout => {
                Error::new(ErrorKind::Device, format!("it took more than {} s", timeout.as_secs()))
            }
            None => match program.check_stop() {
                Err(stopped) => stopped,
                Ok(()) => {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
            },
        };
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
        return Err(reason);
    };
    let said = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    if let Some(answer) = Answer::read(&spec.outputs) {
        return Ok((answer?, said(&out)));
    }
    if status.signal() == Some(KILL) {
        return Err(Error::new(ErrorKind::Memory, "the system ended it, as it does when memory is short"));
    }
    let crashed = || Error::unsupported(format!("it crashed: {status}"));
    Err(hard_limit::refused(&said(&err)).unwrap_or_else(crashed))
}
