//! The messages to and from a worker.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::{EngineName, Operator};
use crate::optimize::search::candidate::{Candidate, EngineSettings};
use crate::output::{self, Existing};
use crate::{Error, ErrorKind, Remedy, Result};

/// The file in [`Spec::outputs`] that contains the worker's answer.
const ANSWER: &str = "answer.json";

/// A worker's task description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The model in the candidate's precision.
    pub model: PathBuf,
    /// The candidate.
    pub candidate: Candidate,
    /// Further engine settings.
    pub settings: EngineSettings,
    /// Input files, set by set.
    pub inputs: Vec<Vec<PathBuf>>,
    /// The folder for outputs.
    pub outputs: PathBuf,
    /// Approximate measuring time; 0 computes outputs only.
    pub seconds: f64,
    /// The maximum number of measured runs; the exact one of [`Task::Repeat`].
    pub most_runs: usize,
    /// A process that allocates more than this, beside the program itself, is killed.
    pub most_bytes: Option<u64>,
    /// What the runs are for.
    pub task: Task,
}

/// What the runs of a worker are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Measures the latency of runs.
    Measure,
    /// Measures the latency of as many runs as the spec says, after the first.
    Repeat,
    /// Measures the time per operator in one run.
    Profile,
    /// Prints each node of a run as it finishes.
    Trace,
    /// Measures the memory of the program itself, with a tiny model.
    Start,
}

/// A worker's measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The engine that was opened; for `melisma`, whichever of our own engines takes the model.
    pub engine: EngineName,
    /// Time from the file to an engine that is ready to run.
    pub load_seconds: f64,
    /// The first run.
    pub first_seconds: f64,
    /// The runs after warm-up.
    pub seconds: Vec<f64>,
    /// Peak physical memory.
    pub peak_bytes: Option<u64>,
    /// Output files, set by set.
    pub outputs: Vec<Vec<PathBuf>>,
    /// Time per operator, as far as the engine reports it.
    pub operators: Vec<Operator>,
}

/// The contents of the file [`ANSWER`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done(Done),
    Failed { kind: ErrorKind, message: String, remedies: Vec<Remedy> },
}

impl Answer {
    pub(super) fn failed(error: &Error) -> Self {
        Self::Failed { kind: error.kind(), message: error.to_string(), remedies: Remedy::of(error) }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| Error::invalid(error.to_string()))?;
        output::write(&folder.join(ANSWER), &text, Existing::Replace)
    }

    /// Reads the answer in `folder`; `None` if the worker ended without one.
    pub(super) fn read(folder: &Path) -> Option<Result<Done>> {
        let text = std::fs::read(folder.join(ANSWER)).ok()?;
        Some(match serde_json::from_slice(&text).ok()? {
            Self::Done(done) => Ok(done),
            Self::Failed { kind, message, remedies } => {
                Err(remedies.into_iter().fold(Error::new(kind, message), Error::or_hint))
            }
        })
    }
}

/// Removes an earlier answer from a reused folder.
pub(super) fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(ANSWER));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_with_its_kind_and_typed_remedies() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [ErrorKind::Unsupported, ErrorKind::Memory, ErrorKind::Corrupt, ErrorKind::Io] {
            let sent = Error::new(kind, "node `a`: too large")
                .with_hint(Remedy::RaiseMemoryLimit { least: Some(7) })
                .or_hint(Remedy::use_engine("onnxruntime"))
                .or_hint("use smaller inputs");
            Answer::failed(&sent).write(folder.path()).unwrap();
            let received = Answer::read(folder.path()).unwrap().unwrap_err();
            assert_eq!((received.kind(), received.to_string()), (kind, sent.to_string()));
            assert_eq!(Remedy::of(&received), Remedy::of(&sent));
        }
        forget(folder.path());
        assert!(Answer::read(folder.path()).is_none());
    }
}
