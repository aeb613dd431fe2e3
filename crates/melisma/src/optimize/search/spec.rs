//! The messages to and from a worker.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Candidate, EngineSettings};
use crate::engine::{EngineName, Operator};
use crate::output::{self, Existing};
use crate::{Error, Kind, Result};

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
    /// The maximum number of measured runs.
    pub most_runs: usize,
    /// A process that exceeds this much memory is killed.
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
    /// Measures the time per operator in one run.
    Profile,
    /// Prints each node of a run as it finishes.
    Trace,
    /// Measures the memory of the process itself, with the embedded engine and a tiny model.
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
    Failed { kind: String, message: String, hint: Option<String> },
}

/// The error kinds that a worker can report; any other becomes `Unsupported`.
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

    /// Reads the answer in `folder`; `None` if the worker ended without one.
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

/// Removes an earlier answer from a reused folder.
pub(super) fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(ANSWER));
}
