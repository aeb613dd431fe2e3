//! What a worker is told, and what it answers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Candidate, EngineSettings};
use crate::engine::{EngineName, Operator};
use crate::output::{self, Existing};
use crate::{Error, Kind, Result};

/// The file in [`Spec::outputs`] that a worker answers in.
const ANSWER: &str = "answer.json";

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
    /// The nodes of a run, each printed as it ends.
    Trace,
    /// The memory of the process itself, with the embedded engine and a tiny model.
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
    pub(super) fn read(folder: &Path) -> Option<Result<Done>> {
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

/// Removes an earlier answer from a folder that is used again.
pub(super) fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(ANSWER));
}
