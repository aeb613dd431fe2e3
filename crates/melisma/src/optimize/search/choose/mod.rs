//! Chooses the winner of a search: which candidates are measured, in which order, and which is best.
//!
//! This file holds a search in progress: its request, the files that its workers share, and the measurement of one
//! candidate.

mod advice;
mod baseline;
pub(super) mod least_memory;
mod operator;
pub(super) mod pick;
mod pieces;
pub(super) mod reference;
mod round;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::candidate::bound::{Bound, Peak};
use super::candidate::chunk::Splitting;
use super::candidate::{Candidate, EngineSettings, prepare};
use super::measure::{Accuracy, Latency, Measured, Outcome, Refusal, Sets, Spec, Task, compare, work};
use super::{Message, Objective, Request, Search};
use crate::engine::EngineName;
use crate::format::Value;
use crate::onnx::Model;
use crate::optimize::cache::Temporary;
use crate::{Error, ErrorKind, Result};

/// Approximate measuring time per candidate. Builds for tests search often, and nothing depends on their times.
const SECONDS: f64 = if cfg!(any(test, debug_assertions)) { 0.1 } else { 1.0 };
const MAX_RUNS: usize = 300;

/// A search in progress.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub(super) search: &'a Search<'a>,
    pub(super) request: &'a Request,
    pub(super) model: &'a Model,
    pub(super) sets: &'a Sets,
    pub(super) settings: &'a EngineSettings,
}

/// Files shared by workers; removed when dropped.
pub(super) struct Scratch {
    folder: Temporary,
    inputs: Vec<Vec<PathBuf>>,
    n_runs: Cell<usize>,
    programs: RefCell<HashMap<ProgramKey, Option<u64>>>,
}

/// What the memory of a worker without a model depends on: whether it has ONNX Runtime's library, and its threads.
type ProgramKey = (bool, usize);

/// The reference outputs, set by set, and the engine that computed them.
pub(super) struct Reference {
    pub(super) engine: EngineName,
    pub(super) outputs: Vec<Vec<Value>>,
}

impl Scratch {
    /// Stores the model for workers in a folder called `name`.
    pub(super) fn store(&self, name: &str, model: &Model) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), error))?;
        prepare::write(model, &folder)?;
        Ok(folder)
    }

    fn prepared(&self, candidate: &Candidate) -> PathBuf {
        self.folder.path().join(candidate.precision.to_string())
    }
}

impl Selection<'_> {
    pub(super) fn scratch(&self) -> Result<Scratch> {
        // Outside the cache, so that a nearly full cache does not limit what can be measured.
        let folder = Temporary::new()?;
        let mut scratch = Scratch { folder, inputs: Vec::new(), n_runs: Cell::default(), programs: RefCell::default() };
        for (index, set) in self.sets.values.iter().enumerate() {
            scratch.inputs.push(work::write(set, scratch.folder.path(), index)?);
        }
        Ok(scratch)
    }

    pub(super) fn splitting(&self) -> Splitting {
        Splitting::of(self.search.config)
    }

    /// Returns the memory that a candidate may use.
    pub(super) fn bound(&self) -> Option<Bound> {
        Bound::of(self.search.config, self.search.free_bytes)
    }

    pub(super) fn spec(&self, scratch: &Scratch, folder: &Path, candidate: &Candidate, seconds: f64) -> Result<Spec> {
        let number = scratch.n_runs.replace(scratch.n_runs.get() + 1);
        let outputs = scratch.folder.path().join(format!("run{number}"));
        std::fs::create_dir_all(&outputs).map_err(|error| Error::io(outputs.display(), error))?;
        Ok(Spec {
            model: folder.join(prepare::FILE),
            candidate: candidate.clone(),
            settings: self.settings.clone(),
            inputs: scratch.inputs.clone(),
            outputs,
            seconds,
            most_runs: MAX_RUNS,
            most_bytes: self.bound().map(Bound::bytes).or(self.search.free_bytes),
            task: Task::Measure,
        })
    }

    fn timed_spec(&self, scratch: &Scratch, folder: &Path, candidate: &Candidate) -> Result<Spec> {
        self.spec(scratch, folder, candidate, SECONDS)
    }

    /// Returns the memory of a worker without a model, measured once for all candidates alike.
    fn program_bytes(&self, scratch: &Scratch, candidate: &Candidate) -> Option<u64> {
        let key = (candidate.engine == EngineName::Onnxruntime, candidate.threads);
        if let Some(known) = scratch.programs.borrow().get(&key) {
            return *known;
        }
        let spec = self.spec(scratch, Path::new(""), candidate, 0.0);
        let bytes = spec.ok().and_then(|spec| self.search.worker.process_bytes(&spec));
        scratch.programs.borrow_mut().insert(key, bytes);
        bytes
    }

    /// Returns the measured peak with the program's part of it.
    fn peak(&self, scratch: &Scratch, candidate: &Candidate, outcome: &Outcome) -> Option<Peak> {
        let program_bytes = self.program_bytes(scratch, candidate).unwrap_or(0);
        Some(Peak { bytes: outcome.peak_bytes?, program_bytes, threads: candidate.threads })
    }

    /// Returns what the best candidate is best at.
    pub(super) fn objective(&self) -> Objective {
        Objective::of(self.search.config.profile.value, self.request.requirements.objective)
    }

    /// Measures as `spec` says; the engine is that which was opened.
    fn outcome(&self, spec: &Spec, reference: &Reference) -> Result<(EngineName, Outcome)> {
        let done = self.search.worker.measure(spec)?;
        let mut accuracy = Accuracy::EXACT;
        for (files, reference) in done.outputs.iter().zip(&reference.outputs) {
            accuracy = accuracy.and(compare(&work::read(files)?, reference)?);
        }
        let outcome = Outcome {
            load_seconds: done.load_seconds,
            first_seconds: done.first_seconds,
            latency_seconds: Latency::of(&done.seconds),
            peak_bytes: done.peak_bytes,
            accuracy,
        };
        Ok((done.engine, outcome))
    }

    pub(super) fn measure(&self, scratch: &Scratch, reference: &Reference, candidate: Candidate) -> Measured {
        (self.search.say)(&Message::Progress(format!("measuring {candidate}")));
        let spec = self.timed_spec(scratch, &scratch.prepared(&candidate), &candidate);
        match spec.and_then(|spec| self.outcome(&spec, reference)) {
            Ok((engine, outcome)) => Measured {
                refused: self.refusal(scratch, &candidate, &outcome),
                candidate: Candidate { engine, ..candidate },
                outcome: Some(outcome),
            },
            Err(error) => Measured { candidate, outcome: None, refused: Some(self.failure(&error)) },
        }
    }

    fn failure(&self, error: &Error) -> Refusal {
        match self.bound().filter(|_| error.kind() == ErrorKind::Memory) {
            Some(bound) => Refusal::Memory(bound.after(&error.to_string())),
            None => Refusal::Failed(error.to_string()),
        }
    }

    fn refusal(&self, scratch: &Scratch, candidate: &Candidate, outcome: &Outcome) -> Option<Refusal> {
        let Accuracy { relative, .. } = outcome.accuracy;
        let tolerance = self.request.requirements.tolerance;
        if relative.is_nan() || relative > tolerance {
            let reason = format!("its error of {relative:.1e} is above the tolerance of {tolerance:.1e}");
            return Some(Refusal::Inexact(reason));
        }
        let bound = self.bound()?;
        let whole = Peak { bytes: outcome.peak_bytes?, program_bytes: 0, threads: candidate.threads };
        if bound.fits(whole) {
            return None;
        }
        let peak = self.peak(scratch, candidate, outcome).filter(|&peak| !bound.fits(peak))?;
        Some(Refusal::Memory(match peak.allocated() > bound.bytes() {
            true => bound.refusal("it", peak.allocated()),
            false => bound.refusal("in another run it", peak.raised().allocated()),
        }))
    }
}
