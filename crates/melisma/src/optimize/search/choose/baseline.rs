//! The default that the winner is compared with: what a user would run without a search.

use super::pick::ranked;
use super::{Reference, Scratch, Selection};
use crate::config::Threads;
use crate::config::precision::Format;
use crate::engine::onnxruntime::{Algorithms, Cudnn, Workspace};
use crate::engine::{EngineName, rten};
use crate::optimize::search::Baseline;
use crate::optimize::search::candidate::engines::{available, version};
use crate::optimize::search::candidate::{Candidate, Chunk, EngineSettings};
use crate::optimize::search::measure::{Measured, Outcome, Spec};
use crate::{Error, ErrorKind, Result};

/// The name of the folder with the model as it was given.
pub(super) const GIVEN: &str = "reference";

impl Selection<'_> {
    /// Measures the model as it was given, with default options: in ONNX Runtime, else in the
    /// embedded engine.
    pub(super) fn baseline(&self, scratch: &Scratch, reference: &Reference) -> Baseline {
        let engine = self.default_engine();
        let threads = if engine == rten::NAME { self.search.config.threads.value.count() } else { 0 };
        let candidate = Candidate { engine, precision: Format::Fp32, threads, chunk: Chunk::Own };
        let measured = self.timed_spec(scratch, &scratch.folder.path().join(GIVEN), &candidate).and_then(|spec| {
            // The defaults of the CUDA provider, which rounds to TF32.
            let cudnn = Cudnn { search: Algorithms::Exhaustive, workspace: Workspace::Largest };
            let settings = EngineSettings { tf32: true, gpu_limit: None, cudnn, ..spec.settings };
            self.outcome(&Spec { settings, ..spec }, reference).and_then(finite)
        });
        let engine_version = version(engine).unwrap_or_default();
        match measured {
            Ok((_, outcome)) => Baseline { engine, engine_version, threads, outcome: Some(outcome), refused: None },
            Err(error) => {
                let refused = Some(self.failure(&error).to_string());
                Baseline { engine, engine_version, threads, outcome: None, refused }
            }
        }
    }

    /// Measures the default a second time and keeps the better one, as for the finalists.
    pub(super) fn baseline_again(&self, scratch: &Scratch, reference: &Reference, before: &mut Baseline) {
        let again = self.baseline(scratch, reference);
        let objective = self.objective();
        let is_better = match (&again.outcome, &before.outcome) {
            (Some(again), Some(before)) => objective.figure(again) < objective.figure(before),
            (again, _) => again.is_some(),
        };
        if is_better {
            *before = again;
        }
    }

    /// Measures ONNX Runtime with its own number of threads as one more candidate, if the default is better than all
    /// others and no setting limits the threads.
    pub(super) fn measure_default(
        &self,
        scratch: &Scratch,
        reference: &Reference,
        (baseline, all): (&Baseline, &mut Vec<Measured>),
    ) {
        let (engine, objective) = (EngineName::Onnxruntime, self.objective());
        let is_tried = baseline.engine == engine && all.iter().any(|measured| measured.candidate.engine == engine);
        if !is_tried || self.search.config.threads.value != Threads::Auto {
            return;
        }
        let best = ranked(objective, all).first().and_then(|best| best.figure(objective));
        let is_better = |outcome: &Outcome| best.is_none_or(|best| objective.figure(outcome) < best);
        if baseline.outcome.as_ref().is_some_and(is_better) {
            let candidate = Candidate { engine, precision: Format::Fp32, threads: 0, chunk: Chunk::Own };
            all.push(self.measure(scratch, reference, candidate));
        }
    }

    fn default_engine(&self) -> EngineName {
        let named = self.request.requirements.engine;
        let found = available(self.search.config, None).unwrap_or_default();
        let is_found = |name: EngineName| found.iter().any(|(engine, _)| *engine == name);
        match [EngineName::OnnxruntimeCuda, EngineName::Onnxruntime].map(is_found) {
            [true, _] if named.is_none_or(EngineName::is_on_gpu) => EngineName::OnnxruntimeCuda,
            [_, true] => EngineName::Onnxruntime,
            _ => rten::NAME,
        }
    }
}

/// Refuses outputs with NaN or infinities where the reference has none: a time for them says nothing.
fn finite((engine, outcome): (EngineName, Outcome)) -> Result<(EngineName, Outcome)> {
    match outcome.accuracy.max_abs.is_finite() {
        true => Ok((engine, outcome)),
        false => Err(Error::new(ErrorKind::Check, "its outputs are not numbers where those of the reference are")),
    }
}
