//! An engine in its own process, under a hard memory limit.

use std::path::{Path, PathBuf};

use crate::config::precision::Format;
use crate::engine::need::{Hidden, Limits};
use crate::engine::{Engine, EngineName, Ports, rten};
use crate::format::Value;
use crate::optimize::cache::Temporary;
use crate::optimize::search::candidate::bound::Bound;
use crate::optimize::search::candidate::{Candidate, Chunk, EngineSettings};
use crate::optimize::search::measure::{Done, Spec, Task, Worker, work};
use crate::{Error, ErrorKind, Remedy, Result};

/// Runs a model whose memory depends on data.
#[derive(Debug)]
pub struct ProcessEngine {
    path: PathBuf,
    candidate: Candidate,
    settings: EngineSettings,
    worker: Worker,
    limits: Limits,
    hidden: Vec<Hidden>,
    ports: Ports,
}

impl ProcessEngine {
    /// Runs the model at `path`, with these inputs and outputs, in the embedded engine in a process
    /// that `worker` starts.
    pub fn new(path: &Path, ports: Ports, worker: Worker) -> Self {
        let candidate = Candidate { engine: rten::NAME, precision: Format::Fp32, threads: 1, chunk: Chunk::Own };
        let (limits, settings) = (Limits::NONE, EngineSettings::cpu());
        Self { path: path.to_owned(), candidate, settings, worker, limits, hidden: Vec::new(), ports }
    }

    /// Switches to another engine.
    #[must_use]
    pub fn running(mut self, candidate: &Candidate, settings: EngineSettings) -> Self {
        self.candidate = candidate.clone();
        self.settings = settings;
        self
    }

    /// Sets limits; `hidden` lists the nodes of unknown size.
    #[must_use]
    pub fn within(mut self, limits: Limits, hidden: Vec<Hidden>) -> Self {
        self.limits = limits;
        self.hidden = hidden;
        self
    }

    /// Runs the model in the worker, which leaves its outputs in the folder, and again `n` times if `task` is to repeat.
    fn go(&self, inputs: &[Value], task: Task, n: usize) -> Result<(Temporary, Done)> {
        let folder = Temporary::new()?;
        let given = work::write(inputs, folder.path(), 0)?;
        let outputs = folder.path().join("outputs");
        std::fs::create_dir_all(&outputs).map_err(|error| Error::io(outputs.display(), error))?;
        let spec = Spec {
            model: self.path.clone(),
            candidate: self.candidate.clone(),
            settings: self.settings.clone(),
            inputs: vec![given],
            outputs,
            seconds: 0.0,
            most_runs: n,
            most_bytes: self.limits.most_bytes(),
            task,
        };
        match self.worker.measure(&spec) {
            Ok(done) => Ok((folder, done)),
            Err(error) if error.kind() == ErrorKind::Memory => Err(self.named(&error, &spec)),
            Err(error) => Err(error),
        }
    }

    /// Runs again and records each node as it finishes: the first missing node ran out of memory.
    fn named(&self, error: &Error, spec: &Spec) -> Error {
        let said = match self.worker.measure(&Spec { task: Task::Trace, ..spec.clone() }) {
            Err(_) => std::fs::read_to_string(spec.outputs.join("stdout")).unwrap_or_default(),
            Ok(_) => String::new(),
        };
        let ended = |hidden: &&Hidden| said.lines().any(|line| line.ends_with(&format!(" ({})", hidden.name)));
        let node = self.hidden.iter().find(|hidden| !ended(hidden)).or(self.hidden.first());
        let node = node.map_or_else(|| "the model".to_owned(), |hidden| hidden.label.clone());
        let bound = Bound::least(self.limits.limit_bytes, self.limits.free_bytes);
        let how = match bound {
            Some(Bound::Limit(_)) => Remedy::RaiseMemoryLimit { least: None },
            Some(Bound::Free(_)) | None => "use a machine with more memory".into(),
        };
        let error = error.to_string();
        let error = bound.map_or_else(|| error.clone(), |bound| bound.after(&error));
        let error = Error::new(ErrorKind::Memory, format!("{node}: {error}"));
        match self.hidden.is_empty() {
            true => error.with_hint(how),
            false => error.with_hint("its size depends on the values of the inputs: give it others").or_hint(how),
        }
    }
}

impl Engine for ProcessEngine {
    fn name(&self) -> EngineName {
        self.candidate.engine
    }

    fn ports(&self) -> &Ports {
        &self.ports
    }

    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        let (_folder, done) = self.go(inputs, Task::Measure, 0)?;
        match done.outputs.first() {
            Some(set) => work::read(set),
            None => Err(Error::new(ErrorKind::Device, "the worker gave no outputs")),
        }
    }

    fn repeat(&mut self, inputs: &[Value], n: usize, check: &dyn Fn() -> Result<()>) -> Result<Vec<f64>> {
        check()?;
        match n {
            0 => Ok(Vec::new()),
            _ => Ok(self.go(inputs, Task::Repeat, n)?.1.seconds),
        }
    }
}
