//! Where the time of a run goes, operator by operator, in every engine that ran the model.

use super::pick::ranked;
use super::{Scratch, Selection};
use crate::Result;
use crate::engine::Operator;
use crate::optimize::search::EngineOperators;
use crate::optimize::search::candidate::Candidate;
use crate::optimize::search::measure::{Measured, Spec, Worker};

impl Selection<'_> {
    /// Profiles the winner, then the best candidate of every other engine. Tables are optional: the
    /// search continues without one, and says why.
    pub(super) fn operators(&self, scratch: &Scratch, winner: &Measured, all: &[Measured]) -> Vec<EngineOperators> {
        let ranked = ranked(self.objective(), all);
        let mut best = vec![winner];
        for measured in ranked.into_iter().chain(all) {
            if !best.iter().any(|known| known.candidate.engine == measured.candidate.engine) {
                best.push(measured);
            }
        }
        best.into_iter().map(|measured| self.of_engine(scratch, measured)).collect()
    }

    fn of_engine(&self, scratch: &Scratch, measured: &Measured) -> EngineOperators {
        let engine = measured.candidate.engine;
        let missing = |reason: String| EngineOperators { engine, operators: Vec::new(), missing: Some(reason) };
        if measured.outcome.is_none() {
            let reason = measured.refused.as_ref().map_or("it was not measured", |refusal| refusal.as_str());
            return missing(format!("it did not run: {reason}"));
        }
        match self.profile(scratch, &measured.candidate) {
            Ok(operators) if !operators.is_empty() => EngineOperators { engine, operators, missing: None },
            Ok(_) => missing(match self.search.worker {
                Worker::Here(_) => "operators are timed in a process of their own, and this search starts none".into(),
                Worker::Program(_) => "the engine reports no times of single operators".into(),
            }),
            Err(error) => missing(format!("the profile failed: {error}")),
        }
    }

    fn profile(&self, scratch: &Scratch, candidate: &Candidate) -> Result<Vec<Operator>> {
        let spec = self.spec(scratch, &scratch.prepared(candidate), candidate, 0.0)?;
        let inputs = spec.inputs[..1].to_vec();
        self.search.worker.operators(&Spec { inputs, ..spec })
    }
}
