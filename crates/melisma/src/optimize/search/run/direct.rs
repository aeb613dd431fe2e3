//! Opens an engine that takes the model as it is, for one run within limits.

use std::path::Path;

use super::ProcessEngine;
use crate::Result;
use crate::engine::chunked::{Chunked, Reach};
use crate::engine::need::{Admission, Hidden, Limits};
use crate::engine::{Engine, Options, Ports, Weights, rten};
use crate::format::Value;
use crate::onnx::Model;
use crate::optimize::search::candidate::engines::open;
use crate::optimize::search::candidate::{Candidate, Chunk, EngineSettings};
use crate::optimize::search::measure::Worker;
use crate::runtime::memory::Budget;

/// The parameters for opening the engine.
#[derive(Debug)]
pub struct Direct<'a> {
    /// The model's file.
    pub path: &'a Path,
    /// The memory that a run may use.
    pub limits: Limits,
    /// The engine and its configuration.
    pub candidate: Candidate,
    /// Further engine settings.
    pub settings: EngineSettings,
    /// Memory of our own engines.
    pub budget: &'a Budget,
    /// Starts a process for runs whose memory is unknown in advance.
    pub worker: Worker,
}

impl Direct<'_> {
    /// Opens an engine that can run `model` with these inputs, and says how: whole, in pieces, or
    /// in a process with a hard limit.
    ///
    /// # Errors
    /// `Memory` if the run does not fit, before anything is allocated; `Unsupported` for features
    /// that the engine lacks.
    pub fn open(self, model: Model, inputs: &[Value]) -> Result<(Box<dyn Engine>, Candidate)> {
        if self.candidate.engine != rten::NAME {
            return self.open_other(model, inputs);
        }
        rten::check(&model)?;
        let options = self.candidate.options();
        let lean = Options { weights: Weights::Plain, ..options };
        match self.limits.admit(&model, inputs)? {
            Admission::Lean => Ok((Box::new(rten::build_from(model, &lean)?), self.candidate)),
            Admission::Whole => Ok((Box::new(rten::build_from(model, &options)?), self.candidate)),
            Admission::Pieces(len) => {
                let reach = Reach::of(&model)?;
                let engine = Chunked::new(Box::new(rten::build_from(model, &lean)?), reach, len);
                Ok((Box::new(engine), Candidate { chunk: Chunk::Of(len), ..self.candidate }))
            }
            Admission::Apart(hidden) => self.in_process(&model, hidden),
        }
    }

    /// Opens another engine, if what the run needs is known to fit.
    fn open_other(self, model: Model, inputs: &[Value]) -> Result<(Box<dyn Engine>, Candidate)> {
        let hidden = self.limits.admit_in(self.candidate.engine, &model, inputs)?;
        if hidden.is_empty() || self.candidate.engine.is_on_gpu() {
            let engine = open(&model, &self.candidate, &self.settings, self.budget)?;
            let candidate = Candidate { engine: engine.name(), ..self.candidate };
            return Ok((engine, candidate));
        }
        self.in_process(&model, hidden)
    }

    fn in_process(self, model: &Model, hidden: Vec<Hidden>) -> Result<(Box<dyn Engine>, Candidate)> {
        let process =
            ProcessEngine::new(self.path, Ports::of(model)?, self.worker).running(&self.candidate, self.settings);
        Ok((Box::new(process.within(self.limits, hidden)), self.candidate))
    }
}
