//! Whether the reference of the accuracy is another engine than the winner, or was confirmed by one.

use super::Report;
use super::candidate::Candidate;
use super::measure::Measured;
use crate::config::precision::Format;
use crate::engine::EngineName;

/// Whose code computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Rten,
    Ours,
    Onnxruntime,
}

impl Origin {
    fn of(engine: EngineName) -> Self {
        match engine {
            EngineName::Rten => Self::Rten,
            EngineName::Melisma | EngineName::MelismaChain | EngineName::MelismaMixed => Self::Ours,
            EngineName::Onnxruntime | EngineName::OnnxruntimeCuda | EngineName::OnnxruntimeTensorrt => {
                Self::Onnxruntime
            }
        }
    }
}

impl Report {
    /// Returns whether the winner's outputs were compared with those of another engine.
    pub fn is_independent(&self) -> bool {
        !self.is_of_reference(&self.candidate) || self.witness().is_some()
    }

    /// Returns the largest difference between the winner's outputs and those of another engine in FP32; `None` if no
    /// other engine ran the model.
    pub fn difference(&self) -> Option<f64> {
        let own = self.accuracy.max_abs;
        if !self.is_of_reference(&self.candidate) {
            return Some(own);
        }
        Some(self.witness()?.outcome?.accuracy.max_abs.max(own))
    }

    /// Describes the accuracy: figures, or that nothing confirms the outputs.
    pub(super) fn accuracy_text(&self) -> String {
        let (engine, reference) = (self.candidate.engine, &self.reference);
        let figures = format!("max_abs {:.3e}, cosine {:.9}", self.accuracy.max_abs, self.accuracy.cosine);
        if !self.is_of_reference(&self.candidate) {
            return format!("{figures}, against {reference} in fp32");
        }
        let own = match self.candidate.precision {
            Format::Fp32 => String::new(),
            _ => format!("; {figures}, against its own fp32"),
        };
        match self.witness().and_then(|witness| Some((witness, witness.outcome?))) {
            Some((witness, outcome)) => {
                let max_abs = outcome.accuracy.max_abs;
                format!("{} differs from {engine} by max_abs {max_abs:.3e}{own}", witness.candidate.engine)
            }
            None => format!("no independent reference: only {engine} ran this model, so nothing confirms it{own}"),
        }
    }

    /// Returns whether a candidate runs on the code that computed the reference.
    pub(super) fn is_of_reference(&self, candidate: &Candidate) -> bool {
        let reference = self.reference.parse::<EngineName>().map(Origin::of);
        reference.is_ok_and(|reference| reference == Origin::of(candidate.engine))
    }

    /// Returns a candidate in FP32 of other code than the reference.
    fn witness(&self) -> Option<&Measured> {
        self.candidates.iter().find(|measured| {
            let is_exact = measured.candidate.precision == Format::Fp32 && measured.outcome.is_some();
            is_exact && !self.is_of_reference(&measured.candidate)
        })
    }
}
