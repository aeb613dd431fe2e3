//! The default that the winner is compared with.

use serde::{Deserialize, Serialize};

use super::measure::Outcome;
use crate::engine::EngineName;
use crate::text::count;

/// The model as it was given, with default options in ONNX Runtime, else in the embedded engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Baseline {
    /// The engine.
    pub engine: EngineName,
    /// Its version.
    pub engine_version: String,
    /// CPU threads; 0 if the engine chooses.
    pub threads: usize,
    /// The measurements; `None` if it failed.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub refused: Option<String>,
}

impl Baseline {
    /// Describes it: `onnxruntime's default`.
    pub fn describe(&self) -> String {
        if self.engine.is_onnxruntime() {
            return format!("{}'s default", self.engine);
        }
        format!("the embedded engine's default ({}, fp32, {})", self.engine, count(self.threads as u64, "thread"))
    }
}
